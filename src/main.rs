//! The binary: hands the arguments to `memoir::cli` and exits with its code.

fn main() -> std::process::ExitCode {
    memoir::cli::run()
}
