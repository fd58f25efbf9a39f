//! The differences between two texts as a unified diff with three lines of context, in bounded
//! time.

use std::time::Duration;

use similar::TextDiff;

/// After this time the comparison no longer searches for the shortest result; the result is still
/// correct.
const PATIENCE: Duration = Duration::from_millis(500);
const AROUND: usize = 3;

/// Empty if both are the same.
pub fn unified(before: &str, after: &str, names: &[String; 2]) -> String {
    // Only a line feed ends a line, as in every other tool that reads diffs.
    let (before, after): (Vec<&str>, Vec<&str>) = (
        before.split_inclusive('\n').collect(),
        after.split_inclusive('\n').collect(),
    );

    let difference = TextDiff::configure()
        .timeout(PATIENCE)
        .newline_terminated(true)
        .diff_slices(&before, &after);

    difference
        .unified_diff()
        .context_radius(AROUND)
        .header(&names[0], &names[1])
        .to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn names() -> [String; 2] {
        ["a".to_owned(), "b".to_owned()]
    }

    #[test]
    fn changed_lines_are_marked() {
        let text = unified("one\ntwo\nthree\n", "one\n2\nthree", &names());
        assert_eq!(
            text,
            "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+three\n\\ No newline at end of file\n"
        );

        assert_eq!(unified("same\n", "same\n", &names()), "");
        let text = unified("a\n", "a\rb\rc", &names());
        assert_eq!(
            text,
            "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+a\rb\rc\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn unrelated_texts_are_compared_quickly() {
        let numbers = |step: usize| {
            let lines: Vec<String> = (0..60_000)
                .map(|n| (n * step % 59_999).to_string())
                .collect();
            lines.join("\n")
        };

        let begun = Instant::now();
        let text = unified(&numbers(7), &numbers(11), &names());
        assert!(
            text.lines().count() > 60_000 && begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
    }
}
