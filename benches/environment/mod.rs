//! The environment of a benchmark, which `scripts/bench` and `scripts/eval` set.

/// The value of a variable; `None` if it is not set or empty.
pub fn variable(name: &str) -> Option<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment configures a benchmark"
    )]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
