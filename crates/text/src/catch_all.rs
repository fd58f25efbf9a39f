//! Terms for everything that fits no other term of a list.

/// The topic of a message whose intent is unclear.
pub const CATCH_ALL: &str = "general_inquiry";

/// Whether a term stands for everything that fits no other: the one above, or as users call it.
#[must_use]
pub fn is_catch_all(name: &str) -> bool {
    let lower = name.to_lowercase().replace([' ', '-'], "_");
    let rest = [
        "general",
        "misc",
        "miscellaneous",
        "none",
        "other",
        "others",
    ];
    lower == CATCH_ALL || rest.contains(&lower.as_str())
}
