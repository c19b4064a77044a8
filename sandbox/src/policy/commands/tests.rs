use super::*;

fn judge(line: &[&str]) -> Result<(), RefusedCommand> {
    let argv: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
    CommandRules::built_in().unwrap().judge(&argv, |program| {
        let own = program.rsplit('/').next().unwrap_or_default().to_owned();
        match program {
            "./harmless" => vec![own, "middle".into(), "rm".into()],
            "vi" => vec![own, "vim.basic".into()],
            _ => vec![own],
        }
    })
}

fn refused(line: &[&str]) -> RefusedCommand {
    judge(line).expect_err(&line.join(" "))
}

#[test]
fn every_refused_program_is_refused_with_its_reason_under_every_spelling() {
    for rule in CommandRules::built_in().unwrap().refused {
        let spellings =
            [rule.name.clone(), format!("/usr/bin/{}", rule.name), format!("./{}", rule.name.to_uppercase())];
        for spelling in spellings {
            let refusal = refused(&[&spelling, "x"]);
            assert_eq!((refusal.what, refusal.reason.as_str()), (spelling, rule.reason.as_str()));
        }
    }
}

#[test]
fn a_symlink_leads_to_every_name_on_its_way() {
    assert_eq!(refused(&["./harmless"]).what, "./harmless");
    assert_eq!(judge(&["vi", "x"]), Ok(()));
}

#[test]
fn a_program_is_seen_behind_those_that_start_it() {
    for line in [
        &["env", "-i", "A=b", "rm", "x"][..],
        &["env", "-u", "HOME", "-", "A=1", "rm"],
        &["env", "-iu", "HOME", "rm"],
        &["env", "--unset", "HOME", "--", "rm"],
        &["env", "--un", "HOME", "rm"],
        &["env", "--unset=HOME", "rm"],
        &["env", "-S", "A=b rm -f", "x"],
        &["env", "-Srm -f"],
        &["env", "--split-string=rm x"],
        &["nice", "-n", "5", "rm"],
        &["nice", "-n5", "rm"],
        &["nice", "-5", "rm"],
        &["nice", "--adjustment=3", "rm"],
        &["nohup", "rm", "x"],
        &["timeout", "-k", "1", "-s", "KILL", "10", "rm", "x"],
        &["timeout", "--kill-after=1", "10", "rm"],
        &["/usr/bin/timeout", "10", "/bin/rm"],
        &["xargs", "-0", "-n", "1", "rm"],
        &["xargs", "-I", "{}", "rm", "{}"],
        &["xargs", "-I{}", "rm", "{}"],
        &["time", "-f", "%e", "rm"],
        &["stdbuf", "-oL", "-e", "0", "rm"],
        &["command", "rm"],
        &["setsid", "-w", "rm"],
        &["busybox", "rm", "x"],
        &["toybox", "env", "coreutils", "rm"],
        &["env", "nice", "timeout", "5", "xargs", "sudo", "rm"],
    ] {
        let refusal = refused(line);
        assert!(!refusal.through.is_empty(), "{line:?}");
    }
    let deep = refused(&["env", "nice", "timeout", "5", "sudo", "ls"]);
    assert_eq!(
        deep.to_string(),
        "`sudo` is refused (behind env, nice, timeout): it runs programs as another user, and nothing in here may gain privileges"
    );
}

#[test]
fn what_only_looks_like_a_refused_program_passes() {
    for line in [
        &["ls", "rm"][..],
        &["grep", "-r", "rm", "."],
        &["env"],
        &["xargs"],
        &["timeout", "5", "ls", "rm"],
        &["env", "RM=rm", "ls"],
        &["env", "-u", "rm", "ls"],
        &["rmdir2"],
        &["cargo", "test", "--", "kill"],
        &["git", "mv-like"],
        &["timeout", "-s", "kill", "5", "ls"],
        &["busybox", "ls"],
        &[],
    ] {
        assert_eq!(judge(line), Ok(()), "{line:?}");
    }
}

#[test]
fn every_refused_argument_is_refused() {
    for rule in CommandRules::built_in().unwrap().refused_arguments {
        let words = match &rule.shape {
            Shape::Option(option) if option.starts_with("--") => vec![option.clone(), format!("{option}=x")],
            Shape::Option(word) | Shape::First(word) => vec![word.clone()],
            Shape::Prefix(prefix) => vec![prefix.clone(), format!("{prefix}0"), format!("{prefix}f")],
            Shape::Letter(letter) => vec![format!("-{letter}"), format!("-H{letter}")],
        };
        for word in words {
            let refusal = refused(&[&rule.program, &word, "y"]);
            assert_eq!(refusal.reason, rule.reason, "{} {word}", rule.program);
            refused(&["nice", &rule.program, &word]);
        }
    }
}

#[test]
fn arguments_that_only_look_like_refused_ones_pass() {
    for line in [
        &["find", ".", "-name", "x", "-print"][..],
        &["find", ".", "-printf", "%p"],
        &["rg", "--", "--pre"],
        &["rg", "--pretty", "x"],
        &["fd", "--extension", "rs"],
        &["fd", "--", "-x"],
        &["defaults", "read", "write"],
    ] {
        assert_eq!(judge(line), Ok(()), "{line:?}");
    }
    refused(&["find", ".", "--", "-delete"]);
}

#[test]
fn programs_in_front_of_each_other_end_somewhere() {
    let line = vec!["env"; 40];
    assert!(refused(&line).reason.contains("in front of each other"));
}
