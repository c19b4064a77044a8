//! What a change looks like, line by line, within a bound.

use imara_diff::{Algorithm, Diff as Differences, InternedInput};

use super::cut::{cut_to_json_bytes, json_len};
use super::redact::line_from;

/// Lines around a change.
const CONTEXT: usize = 3;
/// The longest line that is shown whole, in bytes of JSON. Of a longer one the part that differs is shown.
const LINE: usize = 600;
/// How much may lie between the first and the last change for differences to be looked for in it.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The difference of two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// Hunks as `diff -u` writes them, without the two lines that name the files.
    pub text: String,
    /// Whether hunks or lines were left out because there was no room.
    pub truncated: bool,
    /// How many lines are new, all of them counted.
    pub added: usize,
    /// How many lines are gone.
    pub removed: usize,
}

/// A run of lines that changed: where it begins and how many lines it has, before and after.
#[derive(Debug, Clone, Copy)]
struct Change {
    before: (usize, usize),
    after: (usize, usize),
}

/// The difference of two texts with LF as line end, in at most `room` bytes of JSON text. Whole lines are left out when
/// it does not fit. Passwords in URLs are not shown.
#[must_use]
pub fn unified(before: &str, after: &str, room: usize) -> Diff {
    with_lines_up_to(LINE, before, after, room)
}

/// The same with lines of any length shown whole.
#[must_use]
pub fn unified_whole(before: &str, after: &str, room: usize) -> Diff {
    with_lines_up_to(usize::MAX, before, after, room)
}

fn with_lines_up_to(longest: usize, before: &str, after: &str, room: usize) -> Diff {
    let (old, new) = (lines(before), lines(after));
    let changes = changes(&old, &new);
    let added = changes.iter().map(|change| change.after.1).sum();
    let removed = changes.iter().map(|change| change.before.1).sum();
    let mut pen = Pen { text: String::new(), left: room, longest };
    let fits = hunks(&changes).into_iter().all(|hunk| pen.write(hunk, &old, &new));
    Diff { text: pen.text, truncated: !fits, added, removed }
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let common = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old_rest, new_rest) = (&old[common..], &new[common..]);
    let tail =
        old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old_mid, new_mid) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let whole = Change { before: (common, old_mid.len()), after: (common, new_mid.len()) };
    let bytes = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
    if old_mid.is_empty() && new_mid.is_empty() {
        return Vec::new();
    }
    if old_mid.is_empty() || new_mid.is_empty() || bytes(old_mid) + bytes(new_mid) > MOST_BYTES {
        return vec![whole];
    }
    let mut input: InternedInput<&str> = InternedInput::default();
    input.update_before(old_mid.iter().copied());
    input.update_after(new_mid.iter().copied());
    let mut differences = Differences::compute(Algorithm::Histogram, &input);
    differences.postprocess_lines(&input);
    let at = |range: &std::ops::Range<u32>| (common + range.start as usize, range.len());
    differences.hunks().map(|hunk| Change { before: at(&hunk.before), after: at(&hunk.after) }).collect()
}

/// Changes whose surroundings touch go into one hunk.
fn hunks(changes: &[Change]) -> Vec<&[Change]> {
    let apart = |one: &Change, next: &Change| next.before.0 > one.before.0 + one.before.1 + 2 * CONTEXT;
    changes.chunk_by(|one, next| !apart(one, next)).collect()
}

struct Pen {
    text: String,
    left: usize,
    /// The longest line that is shown whole.
    longest: usize,
}

impl Pen {
    /// Writes a hunk, or as many of its lines as fit; false if it did not fit.
    fn write(&mut self, hunk: &[Change], old: &[&str], new: &[&str]) -> bool {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return true };
        let lead = first.before.0.min(CONTEXT);
        let end = last.before.0 + last.before.1;
        let trail = (old.len() - end).min(CONTEXT);
        let old_range = (first.before.0 - lead, end + trail);
        let new_range = (first.after.0 - lead, last.after.0 + last.after.1 + trail);
        if !self.put(&format!("@@ -{} +{} @@\n", range(old_range), range(new_range))) {
            return false;
        }
        let mut at = old_range.0;
        for change in hunk {
            if !self.context(&old[at..change.before.0]) || !self.change(change, old, new) {
                return false;
            }
            at = change.before.0 + change.before.1;
        }
        self.context(&old[at..old_range.1])
    }

    fn context(&mut self, lines: &[&str]) -> bool {
        lines.iter().all(|line| self.line(' ', line, 0))
    }

    fn change(&mut self, change: &Change, old: &[&str], new: &[&str]) -> bool {
        let gone = &old[change.before.0..][..change.before.1];
        let come = &new[change.after.0..][..change.after.1];
        // Line for line only where there are as many.
        let paired = gone.len() == come.len();
        let from = |index: usize| if paired { self.shown_from(gone[index], come[index]) } else { 0 };
        let starts: Vec<usize> = (0..gone.len().max(come.len())).map(from).collect();
        gone.iter().zip(&starts).all(|(line, from)| self.line('-', line, *from))
            && come.iter().zip(&starts).all(|(line, from)| self.line('+', line, *from))
    }

    fn line(&mut self, mark: char, line: &str, from: usize) -> bool {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let (shown, cut) = line_from(text, from.min(text.len()), self.longest);
        let (start, end) = (if from > 0 { "…" } else { "" }, if cut { "…" } else { "" });
        let unended = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file" };
        self.put(&format!("{mark}{start}{shown}{end}{unended}\n"))
    }

    /// Where to begin to show two long lines that differ somewhere inside.
    fn shown_from(&self, one: &str, other: &str) -> usize {
        if one.len().max(other.len()) <= self.longest {
            return 0;
        }
        let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        let from = same.saturating_sub(LINE / 4);
        if from < LINE / 4 { 0 } else { one.floor_char_boundary(from) }
    }

    fn put(&mut self, text: &str) -> bool {
        let cost = json_len(text);
        let fits = cost <= self.left;
        if fits {
            self.text.push_str(text);
            self.left -= cost;
        }
        fits
    }
}

/// Lines as a hunk's head has them: the first, counted from 1, and how many.
fn range((start, end): (usize, usize)) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    }
}

/// A text short enough to be repeated in a sentence: at most `room` bytes of JSON, in one line.
pub(super) fn excerpt(text: &str, room: usize) -> String {
    let (line, _) = line_from(text, 0, room);
    let cut = cut_to_json_bytes(&line, room);
    if cut.len() < text.trim_end_matches(['\n', '\r']).len() { format!("{cut}…") } else { cut.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(before: &str, after: &str) -> String {
        unified(before, after, usize::MAX).text
    }

    #[test]
    fn hunks_look_as_diff_writes_them() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        let after = before.replace("2\n3", "2\nnew").replace("12\n", "twelve");
        assert_eq!(
            shown(before, &after),
            "@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+new\n 4\n 5\n 6\n@@ -9,4 +9,4 @@\n 9\n 10\n 11\n-12\n+twelve\n\\ No newline at end of file\n"
        );
        assert_eq!(shown("", "a\n"), "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(shown("a\n", ""), "@@ -1 +0,0 @@\n-a\n");
        assert_eq!(shown("same\n", "same\n"), "");
    }

    #[test]
    fn of_a_long_line_the_part_that_differs_is_shown() {
        let before = format!("{}old{}\n", "é".repeat(5_000), "x".repeat(5_000));
        let diff = unified(&before, &before.replace("old", "new"), usize::MAX).text;
        assert!(diff.len() < 3_000 && diff.contains("éold") && diff.contains("énew"), "{diff}");
    }

    #[test]
    fn a_whole_diff_cuts_no_line() {
        let before = format!("{}old{}\n", "é".repeat(5_000), "x".repeat(5_000));
        let after = before.replace("old", "new");
        let diff = unified_whole(&before, &after, usize::MAX);
        assert_eq!(diff.text, format!("@@ -1 +1 @@\n-{before}+{after}"));
        assert!(!diff.truncated);
    }

    #[test]
    fn passwords_in_urls_are_not_shown() {
        let diff = shown("postgres://bob:sesame@db/x\n", "postgres://bob:sesame@db/y\n");
        assert!(!diff.contains("sesame") && diff.contains("[redacted]@db/y"), "{diff}");
    }

    #[test]
    fn hostile_texts_take_no_unbounded_time() {
        let scattered = |seed: u64| -> String {
            let line = |i: u64| format!("{}\n", (i * 2_654_435_761 + seed) % 1_000);
            (0..60_000).map(line).collect()
        };
        let started = std::time::Instant::now();
        let diff = unified(&scattered(1), &scattered(77), 10_000);
        assert!(diff.truncated && json_len(&diff.text) <= 10_000);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    /// Applies a diff, as `patch` does.
    fn patched(before: &str, diff: &str) -> String {
        let old: Vec<&str> = before.split_inclusive('\n').collect();
        let (mut out, mut at) = (String::new(), 0);
        let mut rest = diff.split_inclusive('\n').peekable();
        while let Some(line) = rest.next() {
            if let Some(head) = line.strip_prefix("@@ -") {
                let start: usize = head.split([',', ' ']).next().unwrap().parse().unwrap();
                let is_empty = head.split(' ').next().unwrap().ends_with(",0");
                let start = if is_empty { start } else { start - 1 };
                out.extend(old[at..start].iter().copied());
                at = start;
                continue;
            }
            let unended = rest.next_if(|next| next.starts_with('\\')).is_some();
            let text = if unended { line[1..].strip_suffix('\n').unwrap() } else { &line[1..] };
            match line.as_bytes()[0] {
                b'+' => out.push_str(text),
                b'-' => at += 1,
                _ => {
                    assert_eq!(old[at], text);
                    out.push_str(text);
                    at += 1;
                }
            }
        }
        out.extend(old[at..].iter().copied());
        out
    }

    proptest! {
        #[test]
        fn a_diff_leads_from_the_one_text_to_the_other(before in "([abc]\n){0,30}d?", after in "([abc]\n){0,30}d?") {
            prop_assert_eq!(patched(&before, &shown(&before, &after)), after);
        }

        #[test]
        fn a_diff_keeps_to_its_room(before in "([a\"é]{0,5}\n){0,30}", after in "([a\"é]{0,5}\n){0,30}", room in 0_usize..200) {
            let diff = unified(&before, &after, room);
            prop_assert!(json_len(&diff.text) <= room);
            prop_assert_eq!(diff.truncated, diff.text != shown(&before, &after));
        }
    }
}
