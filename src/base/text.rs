//! Rules about text that more than one floor follows.

/// Counts characters the way memoir means them everywhere: Unicode scalar values (K-15).
#[must_use]
pub fn char_count(text: &str) -> usize {
    text.chars().count()
}

/// The last segment of a path, in the Unix or the Windows spelling (T-3.3).
#[must_use]
pub fn basename(path: &str) -> &str {
    path.rsplit(['/', '\\']).find(|segment| !segment.is_empty()).unwrap_or("")
}

/// Whether a path is absolute: `/a`, `C:\a`, `C:/a` or `\\host\share`.
#[must_use]
pub fn is_absolute_path(path: &str) -> bool {
    let drive = |p: &[u8]| p.len() >= 3 && p[0].is_ascii_alphabetic() && p[1] == b':' && matches!(p[2], b'/' | b'\\');
    path.starts_with('/') || path.starts_with("\\\\") || drive(path.as_bytes())
}

/// Whether the text holds a control character, which no name may (line breaks and tabs included).
#[must_use]
pub fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_basename_is_the_last_segment() {
        for (path, name) in
            [("a/b/c.md", "c.md"), ("C:\\x\\y.txt", "y.txt"), ("plain", "plain"), ("/", ""), ("", ""), ("a/b/", "b")]
        {
            assert_eq!(basename(path), name, "{path}");
        }
    }

    #[test]
    fn absolute_paths_are_known_on_both_systems() {
        for path in ["/a", "C:\\a", "c:/a", "\\\\host\\share"] {
            assert!(is_absolute_path(path), "{path}");
        }
        for path in ["a", "./a", "../a", "C:a", ""] {
            assert!(!is_absolute_path(path), "{path}");
        }
    }
}
