//! `memoir healthcheck`: checks whether a running service is ready. For containers, which have no
//! curl.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::client::reachable;
use super::{CommandError, tell};
use crate::config::{Config, Origin};

pub const EXAMPLES: &str = "\
Examples:
  memoir healthcheck                               check the address in server.listen
  memoir healthcheck --address 127.0.0.1:9000";

const PATIENCE: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub struct Arguments {
    /// The address of the service; by default, the address that this configuration listens on
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let address = match &arguments.address {
        Some(address) => resolve(address)?,
        None => reachable(Config::load(origin)?.server.listen),
    };

    let status = ask(address).with_context(|| format!("no response from {address}"))?;
    if status.starts_with("HTTP/1.1 200") {
        tell("ready");
        return Ok(());
    }

    Err(anyhow::anyhow!("not ready: {status}").into())
}

fn resolve(address: &str) -> anyhow::Result<SocketAddr> {
    let mut found = address
        .to_socket_addrs()
        .with_context(|| format!("{address} is not of the form HOST:PORT"))?;
    found
        .next()
        .with_context(|| format!("{address} cannot be resolved"))
}

/// The status line of `GET /health/ready`.
fn ask(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream
        .write_all(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = [0; 512];
    let length = stream.read(&mut answer)?;

    if length == 0 {
        bail!("the connection was closed");
    }

    let text = String::from_utf8_lossy(&answer[..length]).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
