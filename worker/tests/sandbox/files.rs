use std::path::Path;

use crate::support::{Place, assert_says, bash, perl, result, run, shell};

/// Every way to the key that a tool could think of, and the worker's own entry in `/proc`.
#[tokio::test]
async fn the_data_folder_cannot_be_read_by_any_name() {
    let place = Place::new("data");
    let key = place.key();
    let key = key.display();
    std::os::unix::fs::symlink(place.key(), place.work().join("link")).unwrap();
    std::os::unix::fs::symlink(place.root.join("data"), place.work().join("folder")).unwrap();
    let shell = place.shell();
    let worker = std::process::id();
    for name in [
        format!("{key}"),
        "link".to_owned(),
        "folder/key".to_owned(),
        "../data/key".to_owned(),
        format!("/proc/self/root{key}"),
        "/proc/self/cwd/../data/key".to_owned(),
        format!("/proc/{worker}/root{key}"),
        format!("/proc/{worker}/environ"),
        format!("/proc/{worker}/cmdline"),
        format!("/proc/{worker}/mem"),
        "/etc/shadow".to_owned(),
    ] {
        let said = result(run(&shell, &["cat", &name]).await);
        assert_eq!(said["stdout"], "", "{name}: {said}");
        assert!(said["stderr"].as_str().unwrap().contains("Permission denied"), "{name}: {said}");
    }
    for folder in [place.root.join("data").display().to_string(), format!("/proc/{worker}/fd")] {
        let said = result(run(&shell, &["ls", &folder]).await);
        assert!(said["stderr"].as_str().unwrap().contains("Permission denied"), "{folder}: {said}");
    }
}

#[tokio::test]
async fn a_hard_link_to_the_key_cannot_be_made() {
    let place = Place::new("hardlink");
    let script = format!("ln {} stolen && cat stolen; mv {0} moved; ls", place.key().display());
    assert_says(&bash(&place.shell(), &script).await, "tmp");
    assert!(place.key().exists());
}

#[tokio::test]
async fn the_key_cannot_be_changed_either() {
    let place = Place::new("write");
    let key = place.key();
    let script = format!(
        "echo x > {0}; rm -f {0}; echo x > {0}2; truncate -s 0 {0}; mkdir {0}3",
        key.display()
    );
    bash(&place.shell(), &script).await;
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "sesame");
    assert_eq!(std::fs::read_dir(place.root.join("data")).unwrap().count(), 1);
}

#[tokio::test]
async fn nothing_can_be_written_outside_of_the_work_folder() {
    let place = Place::new("outside");
    let name = format!("portcullis-escape-{}", std::process::id());
    let outside = [
        place.root.as_path(),
        std::env::temp_dir().as_path(),
        Path::new("/usr"),
        Path::new("/dev/shm"),
    ]
    .map(|folder| folder.join(&name));
    let targets = outside.each_ref().map(|path| path.display().to_string()).join(" ");
    let script = format!("touch inside {targets}; echo $?; for f in {targets}; do mkdir $f; done");

    let said = bash(&place.shell(), &script).await;

    assert_says(&said, "1");
    assert!(place.work().join("inside").exists());
    for path in outside {
        assert!(!path.exists(), "{}", path.display());
    }
}

#[tokio::test]
async fn the_work_folder_is_the_tools_own() {
    let place = Place::new("inside");
    let script = "mkdir sub && echo x > sub/file && mv sub/file sub/moved && ln -s moved sub/link \
                  && cat sub/link && chmod +x sub/moved && rm -r sub && ls";
    assert_says(&bash(&place.shell(), script).await, "x\ntmp");
}

#[tokio::test]
async fn a_tool_makes_no_device_of_its_own() {
    let place = Place::new("device");
    bash(&place.shell(), "mknod zero c 1 5; mknod disk b 8 0").await;
    assert!(!place.work().join("zero").exists() && !place.work().join("disk").exists());
}

#[tokio::test]
async fn further_folders_open_only_as_far_as_the_policy_says() {
    let place = Place::new("further");
    for folder in ["shared", "inbox"] {
        std::fs::create_dir(place.root.join(folder)).unwrap();
        std::fs::write(place.root.join(folder).join("file"), folder).unwrap();
    }
    let mut policy = place.policy();
    policy.read_only.push(place.root.join("shared"));
    policy.read_write.push(place.root.join("inbox"));
    let script =
        "cat ../shared/file ../inbox/file; echo x > ../shared/file; echo x > ../inbox/file";
    assert_says(&bash(&shell(policy), script).await, "sharedinbox");
    assert_eq!(std::fs::read_to_string(place.root.join("shared/file")).unwrap(), "shared");
    assert_eq!(std::fs::read_to_string(place.root.join("inbox/file")).unwrap(), "x\n");
}

#[tokio::test]
async fn ordinary_programs_find_what_they_need() {
    let place = Place::new("ordinary");
    let script = "echo x > /dev/null; head -c 4 /dev/urandom | wc -c; \
                  getent passwd root | cut -d: -f1; \
                  : > $TMPDIR/file && ls $TMPDIR; wc -l < /proc/cpuinfo > /dev/null && echo cpus";
    assert_says(&bash(&place.shell(), script).await, "4\nroot\nfile\ncpus");
    let own =
        r#"open F, "/proc/self/status" or die; print grep { /^(Name|NoNewPrivs|Seccomp):/ } <F>"#;
    let said = perl(&place.shell(), own).await;
    assert_says(&said, "Name:\tperl\nNoNewPrivs:\t1\nSeccomp:\t2");
}
