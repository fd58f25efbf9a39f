//! A proxy in front of a database that can refuse connections or transfer nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Open,
    /// Open connections break; new ones are closed immediately.
    Shut,
    /// Connections stay open, but nothing is transferred.
    BlackHole,
}

pub struct Proxy {
    pub address: SocketAddr,
    door: Arc<watch::Sender<Door>>,
}

impl Proxy {
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    pub async fn before(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let door = Arc::new(watch::Sender::new(Door::Open));
        let watched = Arc::clone(&door);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, target.clone(), watched.subscribe()));
            }
        });

        Self { address, door }
    }

    pub fn set(&self, door: Door) {
        self.door.send_replace(door);
    }
}

async fn pass(mut client: TcpStream, target: String, mut door: watch::Receiver<Door>) {
    let now = *door.borrow_and_update();
    match now {
        Door::Shut => {}
        Door::BlackHole => hold(door).await,
        Door::Open => {
            let mut server = TcpStream::connect(&target).await.unwrap();
            tokio::select! {
                _ = copy_bidirectional(&mut client, &mut server) => {}
                _ = door.changed() => {
                    if *door.borrow() == Door::BlackHole {
                        hold(door).await;
                    }
                }
            }
        }
    }
}

/// Keeps the sockets until the state of the proxy changes.
async fn hold(mut door: watch::Receiver<Door>) {
    let _ = door.changed().await;
}
