//! Does every page say only what is there?

use super::source::{Finding, Source};

const REQUIRED: [(&str, &str); 6] = [
    ("README.md", "#"),
    ("CHANGELOG.md", "## [Unreleased]"),
    ("LICENSE", "Apache"),
    ("LICENSE-APACHE", "Apache License"),
    ("LICENSE-MIT", "MIT License"),
    ("Cargo.lock", "[[package]]"),
];
/// A code span with one of these endings and a known first folder is a file's name.
const FILE_ENDINGS: [&str; 12] = [
    ".md", ".rs", ".toml", ".yaml", ".yml", ".json", ".sh", ".py", ".conf", ".service", ".lua",
    ".lock",
];

/// Files a reader looks for first.
pub(crate) fn required_files(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, content) in REQUIRED {
        let found = files.iter().find(|file| file.path == path);
        if !found.is_some_and(|file| file.text.contains(content)) {
            let what = format!("missing, or without `{content}`: write it");
            findings.push(Finding::new(path, 1, what));
        }
    }
    findings
}

/// Links are relative and lead to a file (and its heading); files named in code spans exist.
pub(crate) fn links_and_mentions(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in files.iter().filter(|file| file.ends_with_any(&[".md"])) {
        let mut in_block = false;
        for (number, line) in page.lines() {
            in_block ^= line.trim_start().starts_with("```");
            if in_block {
                continue;
            }
            let wrong_links = links(line).filter_map(|link| wrong_link(page, link, files));
            let wrong_names = code_spans(line).filter_map(|span| wrong_name(page, span, files));
            let wrong = wrong_links.chain(wrong_names);
            findings.extend(wrong.map(|what| page.finding(number, what)));
        }
    }
    findings
}

/// The targets of `[text](target)` in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next())
}

fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn wrong_link(page: &Source, link: &str, files: &[Source]) -> Option<String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
        return None;
    }
    if link.starts_with('/') {
        return Some(format!("link `{link}`: make it relative"));
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(p, h)| (p, Some(h)));
    let target = if path.is_empty() { page.path.clone() } else { resolve(&page.path, path) };
    let folder = format!("{}/", target.trim_end_matches('/'));
    let file = files.iter().find(|file| file.path == target);
    match (file, heading) {
        (None, _) if files.iter().any(|file| file.path.starts_with(&folder)) => None,
        (None, _) => Some(format!("link `{link}`: there is no {target}")),
        (Some(file), Some(heading)) if !has_heading(file, heading) => {
            Some(format!("link `{link}`: {target} has no such heading"))
        }
        (Some(_), _) => None,
    }
}

/// `path` as seen from the page, relative to the root.
fn resolve(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn has_heading(file: &Source, wanted: &str) -> bool {
    let slug = |line: &str| -> String {
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let text = line.trim_start_matches('#').trim().to_lowercase();
        text.chars().filter(kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    file.text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == wanted)
}

/// A code span that looks like a file of ours and is none.
fn wrong_name(page: &Source, span: &str, files: &[Source]) -> Option<String> {
    let first = span.split('/').next().filter(|first| first.len() < span.len())?;
    let known = files.iter().any(|file| file.path.starts_with(&format!("{first}/")));
    let plain = span.chars().all(|letter| letter.is_alphanumeric() || "/._-".contains(letter));
    let is_name = known && plain && FILE_ENDINGS.iter().any(|ending| span.ends_with(ending));
    let here = resolve(&page.path, span);
    let missing = !files.iter().any(|file| file.path == span || file.path == here);
    (is_name && missing).then(|| format!("names `{span}`, which is not there"))
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::super::source::tests::{file, places};
    use super::{REQUIRED, links_and_mentions, required_files};

    fn page(text: &str) -> Vec<Source> {
        vec![
            Source::new("docs/page.md", text.into()),
            Source::new("docs/other.md", "# One `way` home\n".into()),
            Source::new("proto/src/run.rs", "".into()),
        ]
    }

    #[test]
    fn a_link_to_nothing_is_refused() {
        for link in ["missing.md", "../docs/missing.md", "/docs/other.md", "other.md#no-way", "#no"]
        {
            let findings = links_and_mentions(&page(&format!("\nsee [it]({link}).")));
            assert_eq!(places(&findings), ["docs/page.md:2"], "{link}");
        }
    }

    #[test]
    fn a_link_to_a_file_a_folder_a_heading_or_the_web_is_fine() {
        for link in
            ["other.md", "../proto/src/", "other.md#one-way-home", "https://x.org/a", "#a-b"]
        {
            let text = format!("# A b\nsee [it]({link}) and `proto/src/run.rs`");
            assert!(links_and_mentions(&page(&text)).is_empty(), "{link}");
        }
    }

    #[test]
    fn a_named_file_that_is_not_there_is_refused() {
        let findings = links_and_mentions(&page("in `proto/src/gone.rs`"));
        assert_eq!(places(&findings), ["docs/page.md:1"]);
        let fine = "```\n`proto/src/gone.rs`\n```\n`agents.d/x.toml` `proto/src/<name>.rs`";
        assert!(links_and_mentions(&page(fine)).is_empty());
    }

    #[test]
    fn a_missing_changelog_or_licence_is_refused() {
        assert_eq!(required_files(&[]).len(), REQUIRED.len());
        let empty = file("CHANGELOG.md", "# Changelog\n");
        assert_eq!(required_files(&empty).len(), REQUIRED.len());
    }
}
