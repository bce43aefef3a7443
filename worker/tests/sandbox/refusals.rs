use portcullis_worker::sandbox::{self, Mode, SandboxPolicy};
use portcullis_worker::tools::shell::{Shell, ShellSettings};
use portcullis_worker::tools::{NotRunCode, Outcome, Tool as _};
use serde_json::json;

use crate::support::{Place, assert_says, bash, call, not_run, result, run, settings, shell};

#[test]
fn this_kernel_has_every_layer() {
    let layers = sandbox::probe();
    assert!(layers.are_sufficient(), "{layers:?}");
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_not_run() {
    let place = Place::new("no-program");
    let why = not_run(run(&place.shell(), &["portcullis-no-such-program"]).await);
    assert_eq!(why.code, NotRunCode::ProgramNotFound);
    assert!(why.message.contains("portcullis-no-such-program"), "{why}");
}

#[tokio::test]
async fn a_program_outside_of_the_sandbox_is_not_run() {
    let place = Place::new("outside-program");
    let program = place.root.join("data/program");
    std::fs::copy("/bin/true", &program).unwrap();
    let why = not_run(run(&place.shell(), &[program.to_str().unwrap()]).await);
    assert_eq!(why.code, NotRunCode::ProgramRefused, "{why}");
}

#[tokio::test]
async fn a_layer_that_cannot_be_put_on_means_not_run() {
    let place = Place::new("layer");
    let extra = place.root.join("extra");
    std::fs::create_dir(&extra).unwrap();
    let mut policy = place.policy();
    policy.read_only.push(extra.clone());
    let shell = shell(policy);
    // The helper must open it, and can't.
    std::fs::remove_dir(&extra).unwrap();

    let why = not_run(run(&shell, &["touch", "ran"]).await);

    assert_eq!(why.code, NotRunCode::SandboxFailed, "{why}");
    assert!(why.message.contains(extra.to_str().unwrap()), "{why}");
    assert!(!place.work().join("ran").exists());
}

#[tokio::test]
async fn a_helper_that_is_missing_means_not_run() {
    let place = Place::new("no-helper");
    let helper = ShellSettings::new(vec!["/nonexistent/portcullis".into()]);
    let shell = Shell::new(helper, place.policy()).unwrap();
    assert_eq!(not_run(run(&shell, &["true"]).await).code, NotRunCode::SpawnFailed);
}

/// A tool that ran must not be able to say that it did not.
#[tokio::test]
async fn a_tool_cannot_pass_itself_off_as_not_run() {
    let place = Place::new("forged");
    let script = r#"echo '{"nonce":"","code":"program_not_found","message":"x"}' >&2; exit 119"#;
    let outcome = run(&place.shell(), &["bash", "-c", script]).await;
    assert!(matches!(&outcome, Outcome::Failed(said) if said["exit_code"] == 119), "{outcome:?}");
}

#[tokio::test]
async fn a_call_cancelled_before_its_start_is_not_run() {
    let place = Place::new("early-cancel");
    let call = call(json!({ "argv": ["touch", "ran"] }));
    call.cancel.cancel();
    assert_eq!(not_run(place.shell().run(call).await).code, NotRunCode::Cancelled);
    assert!(!place.work().join("ran").exists());
}

#[tokio::test]
async fn arguments_that_were_never_checked_are_not_run() {
    let place = Place::new("unchecked");
    for args in [json!({ "argv": [] }), json!({ "argv": ["true"], "user": "root" })] {
        assert_eq!(not_run(place.shell().run(call(args)).await).code, NotRunCode::ArgsRefused);
    }
}

#[tokio::test]
async fn a_tool_starts_only_where_it_may_look() {
    let place = Place::new("cwd");
    std::fs::create_dir(place.work().join("sub")).unwrap();
    std::os::unix::fs::symlink("/root", place.work().join("out")).unwrap();
    let shell = place.shell();
    for cwd in ["../data", "out", "/", "missing", "tmp/../../data"] {
        let outcome = shell.run(call(json!({ "argv": ["pwd"], "cwd": cwd }))).await;
        assert_eq!(not_run(outcome).code, NotRunCode::CwdRefused, "{cwd}");
    }
    let said = shell.run(call(json!({ "argv": ["pwd"], "cwd": "sub" }))).await;
    assert_says(&result(said), place.work().join("sub").to_str().unwrap());
}

/// The link would make the worker hand the data folder to the tool's user.
#[test]
fn a_link_in_the_place_of_the_temporary_folder_is_refused() {
    let place = Place::new("tmp-link");
    std::os::unix::fs::symlink(place.root.join("data"), place.work().join("tmp")).unwrap();
    assert!(Shell::new(settings(), place.policy()).is_err());
}

#[tokio::test]
async fn switched_off_in_so_many_words_the_sandbox_hides_nothing() {
    let place = Place::new("off");
    let mut policy = SandboxPolicy::new(Mode::Off, place.work());
    policy.denied = place.policy().denied;
    let said = bash(&shell(policy), &format!("cat {}", place.key().display())).await;
    assert_says(&said, "sesame");
}
