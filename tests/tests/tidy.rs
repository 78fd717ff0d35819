//! What holds of the sources themselves: floors, clocks, and that every planted mistake still has its place.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::{fs, iter};

use aedb_tests::{PLANTED, PLANTED_IN_SCHEDULES};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Every Rust source below a folder, with its text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![root().join(folder)];
    let files = iter::from_fn(|| {
        let folder = folders.pop()?;
        let entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        folders.extend(entries.iter().filter(|path| path.is_dir()).cloned());
        Some(entries.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs")).collect::<Vec<_>>())
    });
    let files: Vec<PathBuf> = files.flatten().collect();
    assert!(!files.is_empty(), "{folder} is empty");
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The code of a file, without its tests at the end and without comments.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_floor_uses_itself_and_lower_ones_only() {
    // Below `model` there is nothing; it has no clock, no store and no engine.
    let forbidden: [(&str, &[&str]); 5] = [
        (
            "aedb-queue/src/model",
            &["crate::engine", "crate::kv", "crate::clock", "crate::queue", "crate::db", "redb", "async "],
        ),
        ("aedb-queue/src/engine", &["crate::kv", "crate::store", "crate::model", "crate::queue", "crate::db"]),
        ("aedb-queue/src/kv", &["crate::queue", "crate::db", "crate::scope", "crate::lease", "redb"]),
        ("aedb-queue/src/store", &["crate::kv", "crate::queue", "crate::db", "redb"]),
        ("aedb-queue/src", &["aedb_worker", "tokio"]),
    ];
    for (folder, words) in forbidden {
        for (path, text) in sources(folder) {
            // The features for a server and for AEDB may bring the runtime that these live in.
            let inside = path.strip_prefix(root()).unwrap();
            if inside.components().any(|part| part.as_os_str() == "postgres" || part.as_os_str() == "aedb") {
                continue;
            }
            for word in words {
                assert!(!code(&text).contains(word), "{} uses {word}", path.display());
            }
        }
    }
}

#[test]
fn time_and_chance_come_in_through_one_file_each() {
    for (path, text) in sources("aedb-queue/src").into_iter().chain(sources("aedb-worker/src")) {
        let (code, name) = (code(&text), path.file_name().unwrap().to_str().unwrap().to_owned());
        for clock in ["SystemTime::now", "Instant::now"] {
            assert!(
                !code.contains(clock) || matches!(name.as_str(), "clock.rs" | "monotonic.rs"),
                "{}",
                path.display()
            );
        }
        assert!(
            !code.contains("rand::") || matches!(name.as_str(), "chance.rs" | "simulated.rs" | "schedules.rs"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn no_file_is_so_long_that_a_reader_gets_lost() {
    for folder in ["aedb-queue/src", "aedb-worker/src", "aedb-macros/src"] {
        for (path, text) in sources(folder) {
            let lines = code(&text).lines().count();
            assert!(lines <= 400, "{} has {lines} lines of code: give its second room a file", path.display());
        }
    }
}

#[test]
fn every_planted_mistake_has_its_place_and_there_are_enough() {
    let planted: Vec<_> = PLANTED.iter().chain(PLANTED_IN_SCHEDULES).collect();
    assert!(planted.len() >= 15);
    for mistake in &planted {
        let source = fs::read_to_string(root().join(mistake.file)).unwrap();
        assert_eq!(source.matches(mistake.right).count(), 1, "{}: see {}", mistake.what, mistake.file);
        assert_ne!(mistake.right, mistake.wrong);
    }
    let much = format!("{} have their place; `cargo run -p aedb-tests --bin planted` sees each found", planted.len());
    aedb_tests::tell("planted mistakes", &much);
}

#[test]
fn every_feature_but_one_is_tested_with_the_rest() {
    let listed = fs::read_to_string(root().join("tests/features.sh")).unwrap();
    let listed: Vec<&str> =
        listed.lines().find_map(|line| line.strip_prefix("FEATURES=")).unwrap().split(',').collect();
    for package in ["aedb-queue", "aedb-worker", "aedb-tests"] {
        let folder = if package == "aedb-tests" { "tests" } else { package };
        let text = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let features = text.split("[features]\n").nth(1).unwrap().split("\n[").next().unwrap();
        for feature in features.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name) {
            let name = format!("{package}/{feature}");
            assert!(matches!(feature, "default" | "aedb") || listed.contains(&name.as_str()), "{name} is not tested");
        }
    }
}

#[test]
fn every_dependency_has_a_licence_that_its_users_can_live_with_and_comes_from_the_registry() {
    let asked = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20);
    let allowed = [
        "MIT",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "Zlib",
        "Unicode-3.0",
        "Unlicense",
        "CC0-1.0",
        "0BSD",
        "BSL-1.0",
        // Of what AEDB brings, and only with the feature `aedb`: it asks for the changed files of these crates themselves, nothing else.
        "MPL-2.0+",
    ];
    for package in packages {
        let (name, licence) = (package["name"].as_str().unwrap(), package["license"].as_str().unwrap_or_default());
        // One of the alternatives must be allowed as a whole.
        let fits = licence.replace('/', " OR ").split(" OR ").any(|choice| {
            let choice = choice.trim().trim_matches(['(', ')']).replace(" WITH LLVM-exception", "");
            choice.split(" AND ").all(|part| allowed.contains(&part.trim().trim_matches(['(', ')'])))
        });
        assert!(fits, "{name} has the licence {licence:?}");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|source| source.starts_with("registry+")), "{name} comes from {source:?}");
    }
}
