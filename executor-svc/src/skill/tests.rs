use std::os::unix::fs::symlink;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::AllowlistText;

const REVIEW: &str = "---\nname: review\n---\n# Review\n\nLook twice.\n";

fn hash(text: &str) -> String {
    SkillText::of(text.as_bytes()).unwrap().sha256()
}

fn by_variable(text: &str) -> Allowlist {
    Allowlist::read(&AllowlistText::Variable(text.into()))
}

fn by_file(toml: &str) -> Allowlist {
    let table: toml::Table = toml.parse().unwrap();
    Allowlist::read(&AllowlistText::File(table["allow"].clone()))
}

fn ask(id: &str) -> SkillAsk {
    SkillAsk { skill_id: id.to_owned(), content: None }
}

fn inline(id: &str, content: &str) -> SkillAsk {
    SkillAsk { content: Some(content.to_owned()), ..ask(id) }
}

/// A home, a team's folder and a project, each with the skill `review`.
struct World {
    top: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { top: tempfile::tempdir().unwrap() };
        for folder in ["home/review", "team/review", "project/.claude/skills/review"] {
            world.write(&format!("{folder}/SKILL.md"), REVIEW);
        }
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn skills(&self, pins: &[(&str, &str)]) -> Skills {
        let entries: Vec<_> =
            pins.iter().map(|(id, text)| json!({"skill_id": id, "content_sha256": hash(text)})).collect();
        let folders = ["personal", "team"].map(|prefix| {
            let folder = if prefix == "personal" { "home" } else { prefix };
            (prefix.to_owned(), self.path(folder))
        });
        let allow = AllowlistText::Variable(json!(entries).to_string().into());
        Skills::new(&SkillSettings { allow, folders: folders.into() })
    }

    fn freeze(&self, pins: &[(&str, &str)], asked: &[SkillAsk]) -> Result<Vec<Skill>, SkillRefusal> {
        self.skills(pins).freeze(asked, &self.path("project"))
    }

    /// The one problem with the one skill that is asked for.
    fn problem(&self, pins: &[(&str, &str)], asked: SkillAsk) -> Problem {
        match self.freeze(pins, &[asked]) {
            Err(SkillRefusal::NotAllowed(mut faults)) if faults.len() == 1 => faults.remove(0).problem,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn skills_come_inline_from_home_from_the_project_and_from_configured_folders() {
    let world = World::new();
    let pins = ["personal:review", "project:review", "team:review", "inline:x"].map(|id| (id, REVIEW));
    let crlf = REVIEW.replace('\n', "\r\n");
    let asked =
        [ask("team:review"), inline("inline:x", &crlf), ask("project:review"), ask("personal:review")];
    let frozen = world.freeze(&pins, &asked).unwrap();
    let ids: Vec<_> = frozen.iter().map(|skill| skill.facts.skill_id.as_str()).collect();
    assert_eq!(
        ids,
        ["team:review", "inline:x", "project:review", "personal:review"],
        "in the order of the call"
    );
    for skill in frozen {
        assert_eq!(skill.body, "# Review\n\nLook twice.\n");
        assert_eq!((skill.facts.content_sha256.as_str(), skill.facts.bytes), (hash(REVIEW).as_str(), 22));
    }
    assert_eq!(world.freeze(&[], &[]), Ok(Vec::new()));
}

#[test]
fn what_is_not_pinned_is_not_even_looked_for() {
    let world = World::new();
    std::fs::remove_dir_all(world.path("home")).unwrap();
    assert_eq!(world.problem(&[("team:review", REVIEW)], ask("personal:review")), Problem::NotListed);
    assert_eq!(world.problem(&[], inline("a:b", REVIEW)), Problem::NotListed);
}

#[test]
fn another_text_is_refused_with_both_hashes() {
    let world = World::new();
    let other = Problem::OtherText { pinned: hash("other"), found: hash(REVIEW) };
    let pins = [("team:review", "other")];
    assert_eq!(world.problem(&pins, ask("team:review")), other);
    assert_eq!(world.problem(&pins, inline("team:review", REVIEW)), other);
    let told = other.to_string();
    assert!(told.contains(&hash("other")) && told.contains(&hash(REVIEW)), "{told}");
}

#[test]
fn files_that_are_not_there_not_text_or_without_instructions_are_refused() {
    let world = World::new();
    let pinned = |id| [(id, REVIEW)];
    assert_eq!(world.problem(&pinned("team:none"), ask("team:none")), BeneathFault::NotFound.into());
    assert_eq!(world.problem(&pinned("other:a"), ask("other:a")), Problem::NoFolder("other".into()));
    world.write("team/bytes/SKILL.md", b"ab\xff");
    assert_eq!(world.problem(&pinned("team:bytes"), ask("team:bytes")), NotUtf8 { offset: 2 }.into());
    world.write("team/large/SKILL.md", "x".repeat(MAX_TEXT + 1));
    let large = BeneathFault::TooLarge(MAX_TEXT as u64);
    assert_eq!(world.problem(&pinned("team:large"), ask("team:large")), large.into());
    let empty = "---\nname: x\n---\n \n";
    assert_eq!(world.problem(&[("a:b", empty)], inline("a:b", empty)), Problem::NoBody);
    std::fs::create_dir_all(world.path("team/folder/SKILL.md")).unwrap();
    let folder = BeneathFault::WrongKind("a directory");
    assert_eq!(world.problem(&pinned("team:folder"), ask("team:folder")), folder.into());
}

#[test]
fn links_lead_nowhere_but_a_folder_of_the_users_own_may_be_one() {
    let world = World::new();
    let link = |name: &str| Problem::from(BeneathFault::Symlink(name.to_owned()));
    symlink(world.path("home/review"), world.path("team/linked")).unwrap();
    assert_eq!(world.problem(&[("team:linked", REVIEW)], ask("team:linked")), link("linked"));
    std::fs::create_dir(world.path("team/file")).unwrap();
    symlink(world.path("home/review/SKILL.md"), world.path("team/file/SKILL.md")).unwrap();
    assert_eq!(world.problem(&[("team:file", REVIEW)], ask("team:file")), link("SKILL.md"));
    std::fs::rename(world.path("home"), world.path("dotfiles")).unwrap();
    symlink(world.path("dotfiles"), world.path("home")).unwrap();
    assert!(world.freeze(&[("personal:review", REVIEW)], &[ask("personal:review")]).is_ok());
    // The same in a project, which may be anybody's.
    let pins = [("project:review", REVIEW)];
    std::fs::rename(world.path("project/.claude"), world.path("elsewhere")).unwrap();
    symlink(world.path("elsewhere"), world.path("project/.claude")).unwrap();
    assert_eq!(world.problem(&pins, ask("project:review")), link(".claude"));
}

#[test]
fn a_skill_of_a_project_with_a_further_name_is_refused() {
    let world = World::new();
    for folder in ["team/review", "project/.claude/skills/review"] {
        std::fs::hard_link(world.path(folder).join("SKILL.md"), world.path(folder).join("twin")).unwrap();
    }
    assert_eq!(world.problem(&[("project:review", REVIEW)], ask("project:review")), Problem::HardLinks(2));
    assert!(world.freeze(&[("team:review", REVIEW)], &[ask("team:review")]).is_ok());
}

#[test]
fn the_call_itself_is_judged_first_and_every_skill_at_fault_is_named() {
    let world = World::new();
    let long = "x".repeat(MAX_TEXT + 1);
    let asked = [ask("a:b"), ask("no-colon"), ask("a:b"), inline("a:../x", &long)];
    let Err(SkillRefusal::Malformed(faults)) = world.freeze(&[], &asked) else { panic!("not malformed") };
    let found: Vec<_> = faults.iter().map(|fault| (fault.index, fault.problem.clone())).collect();
    let wanted = [
        (1, InvalidSkillId.into()),
        (2, Problem::Twice),
        (3, InvalidSkillId.into()),
        (3, Problem::ContentTooLarge(MAX_TEXT + 1)),
    ];
    assert_eq!(found, wanted);
    let nine: Vec<_> = (0..9).map(|n| ask(&format!("a:{n}"))).collect();
    assert_eq!(world.freeze(&[], &nine), Err(SkillRefusal::TooMany(9)));
    let Err(refusal) = world.freeze(&[("team:review", "other")], &[ask("a:b"), ask("team:review")]) else {
        panic!("not refused")
    };
    let told = refusal.to_string();
    assert!(
        told.contains("[0] (a:b) is not on") && told.contains("[1] (team:review) is not the text"),
        "{told}"
    );
}

#[test]
fn the_instructions_together_have_a_bound_and_front_matter_does_not_count() {
    let world = World::new();
    let part = |bytes: usize| format!("---\nname: a-long-name\n---\n{}", "x".repeat(bytes));
    let (half, more) = (part(MAX_BODIES / 2), part(MAX_BODIES / 2 + 1));
    let pins = [("a:half", half.as_str()), ("b:half", &half), ("c:more", &more)];
    let fits = world.freeze(&pins, &[inline("a:half", &half), inline("b:half", &half)]).unwrap();
    assert_eq!(fits.iter().map(|skill| skill.body.len()).sum::<usize>(), MAX_BODIES);
    let Err(SkillRefusal::TooLarge { together, each }) =
        world.freeze(&pins, &[inline("a:half", &half), inline("c:more", &more)])
    else {
        panic!("it is too much")
    };
    assert_eq!((together, each.len()), (MAX_BODIES as u64 + 1, 2));
}

#[test]
fn no_debug_form_of_a_skill_repeats_its_text() {
    let world = World::new();
    let frozen = world.freeze(&[("a:b", REVIEW)], &[inline("a:b", REVIEW)]).unwrap();
    let shown = format!("{frozen:?} {:?}", inline("a:b", REVIEW));
    assert!(!shown.contains("twice"), "{shown}");
}

#[test]
fn an_allowlist_in_json_and_in_toml_says_the_same() {
    let hash = hash(REVIEW);
    let json = by_variable(&format!(r#"[{{"skill_id":"personal:review","content_sha256":"{hash}"}}]"#));
    let toml = by_file(&format!("allow = [{{ skill_id = 'personal:review', content_sha256 = '{hash}' }}]"));
    for list in [&json, &toml] {
        assert_eq!(
            (list.pin(&"personal:review".parse().unwrap()), list.faults()),
            (Some(hash.as_str()), None)
        );
        assert_eq!(list.pin(&"personal:other".parse().unwrap()), None);
    }
    assert_eq!(by_variable("[]").faults(), None);
    assert_eq!(Allowlist::read(&AllowlistText::Absent).faults(), None);
}

#[test]
fn each_fault_of_an_allowlist_is_named_with_its_entry_and_makes_all_of_it_void() {
    let good = json!({"skill_id": "a:b", "content_sha256": "0".repeat(64)});
    let with = |name: &str, value: serde_json::Value| {
        let mut entry = good.clone();
        entry[name] = value;
        entry
    };
    for (entry, why) in [
        (json!({"skill_id": "c:d"}), "missing field `content_sha256`"),
        (json!({"content_sha256": "0".repeat(64)}), "missing field `skill_id`"),
        (with("path", json!("/x")), "unknown field `path`"),
        (with("skill_id", json!("c:../d")), "is not PREFIX:NAME"),
        (with("skill_id", json!(7)), "invalid type"),
        (with("content_sha256", json!("0".repeat(63))), "64 lower-case"),
        (with("content_sha256", json!("A".repeat(64))), "64 lower-case"),
        (good.clone(), "earlier entry"),
        (with("content_sha256", json!("1".repeat(64))), "earlier entry"),
        (json!("c:d"), "is not {skill_id, content_sha256}"),
        (json!(null), "is not {skill_id, content_sha256}"),
    ] {
        let list = by_variable(&json!([good, entry]).to_string());
        let (_, faults) = list.faults().expect("a fault");
        assert_eq!((faults.len(), faults[0].entry), (1, Some(1)), "{entry}");
        assert!(faults[0].to_string().contains(why), "{entry}: {}", faults[0]);
        assert_eq!(list.pin(&"a:b".parse().unwrap()), None, "{entry}");
    }
    let twice = r#"[{"skill_id":"a:b","skill_id":"a:b","content_sha256":"0"}]"#;
    assert!(by_variable(twice).faults().unwrap().1[0].problem.contains("duplicate field"));
    for text in ["", " ", "{}", "7", "[", "null", "\"a:b\"", "[] []"] {
        assert_eq!(by_variable(text).faults().unwrap().1[0].entry, None, "{text:?}");
    }
    assert_eq!(by_file("allow = 7").faults().unwrap().1[0].to_string(), "it is not a list");
    assert!(by_file("allow = [7]").faults().unwrap().1[0].to_string().starts_with("entry 0 is not"));
}

#[test]
fn a_malformed_allowlist_keeps_sessions_with_skills_from_starting_and_no_others() {
    let allow = AllowlistText::Variable("[{}]".into());
    let skills = Skills::new(&SkillSettings { allow, ..SkillSettings::default() });
    let refused = skills.freeze(&[inline("a:b", REVIEW)], Path::new("/")).unwrap_err().to_string();
    assert!(refused.contains("CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON"), "{refused}");
    assert!(refused.contains("entry 0") && refused.contains("skill_id"), "{refused}");
    assert_eq!(skills.freeze(&[], Path::new("/")), Ok(Vec::new()));
}

/// JSON that is nearly an allowlist.
fn nearly() -> impl Strategy<Value = String> {
    let id = prop::sample::select(vec!["a:b", "a:c", "A:b", "a:..", "a:b\u{e4}", ""]);
    let hash = prop::sample::select(vec!["0", "f", "F", "g"]);
    let name = prop::sample::select(vec!["content_sha256", "content_sha", "skill_id", "x"]);
    let entry = (id, hash, 63..66usize, name).prop_map(|(id, digit, digits, name)| {
        format!(r#"{{"skill_id":"{id}","{name}":"{}"}}"#, digit.repeat(digits))
    });
    let junk = prop::sample::select(vec!["null", "[]", "{}", "7", "\"", "[[[", "]", "", "{\"skill_id\":{}}"]);
    let part = prop_oneof![6 => entry, 1 => junk.prop_map(str::to_owned)];
    prop::collection::vec(part, 0..5).prop_map(|parts| format!("[{}]", parts.join(",")))
}

proptest! {
    #[test]
    fn whatever_an_allowlist_says_it_is_void_or_pins_well_formed_skills(text in prop_oneof![nearly(), ".*"]) {
        let list = by_variable(&text);
        let read: Result<Vec<serde_json::Value>, _> = serde_json::from_str(&text);
        match (list.faults(), read) {
            (Some((_, faults)), read) => {
                let entries = read.map_or(0, |entries| entries.len());
                prop_assert!(faults.iter().all(|fault| fault.entry.is_none_or(|entry| entry < entries)));
                prop_assert_eq!(list.summary()["allowed"].as_array().unwrap().len(), 0);
            }
            (None, Ok(entries)) => {
                for entry in &entries {
                    let id: SkillId = entry["skill_id"].as_str().unwrap().parse().unwrap();
                    prop_assert_eq!(list.pin(&id), entry["content_sha256"].as_str());
                    prop_assert_eq!(entry.as_object().unwrap().len(), 2);
                }
                prop_assert_eq!(list.summary()["allowed"].as_array().unwrap().len(), entries.len());
            }
            (None, Err(error)) => return Err(TestCaseError::fail(error.to_string())),
        }
    }

    #[test]
    fn any_text_in_place_of_a_skill_is_frozen_as_its_body_or_refused(content in ".*") {
        let world = World::new();
        match world.freeze(&[("a:b", &content)], &[inline("a:b", &content)]) {
            Ok(frozen) => {
                prop_assert_eq!(frozen[0].facts.bytes, frozen[0].body.len() as u64);
                prop_assert!(!frozen[0].body.trim().is_empty());
            }
            Err(SkillRefusal::NotAllowed(faults)) => prop_assert_eq!(&faults[0].problem, &Problem::NoBody),
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }
}
