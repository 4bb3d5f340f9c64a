//! The keys that `turnwire login` saved, by the origin of their server.
//!
//! The file is readable by its owner only, and is replaced as a whole, so that a crash leaves the
//! old one.

use std::{
    collections::BTreeMap,
    fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    addresses::ServerAddress,
    environment::Environment,
    exit::{Problem, Result},
};

pub(crate) struct Credentials {
    /// None if the user has no home.
    path: Option<PathBuf>,
    file: CredentialsFile,
}

#[derive(Default, Serialize, Deserialize)]
struct CredentialsFile {
    /// Keys by the origin of their server.
    #[serde(default)]
    servers: BTreeMap<String, SavedKey>,
}

#[derive(Serialize, Deserialize)]
struct SavedKey {
    api_key: String,
}

impl Credentials {
    /// Reads the file. It is empty if it does not exist.
    pub(crate) fn read(environment: &Environment) -> Result<Self> {
        let Some(path) = usual_path(environment) else {
            return Ok(Self { path: None, file: CredentialsFile::default() });
        };
        let unreadable = |why: String| {
            Problem::usage(format!("cannot read {}: {why}", path.display()))
                .hint("remove it, and save your keys again with `turnwire login`")
        };
        let file = match fs::read_to_string(&path) {
            Ok(text) => {
                serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => CredentialsFile::default(),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        Ok(Self { path: Some(path), file })
    }

    pub(crate) fn key_of(&self, server: &ServerAddress) -> Option<&str> {
        self.file.servers.get(&server.origin()).map(|saved| saved.api_key.as_str())
    }

    /// The server with a saved key, if there is only one.
    pub(crate) fn only_server(&self) -> Option<String> {
        let mut servers = self.file.servers.keys();
        servers.next().filter(|_| servers.next().is_none()).cloned()
    }

    /// Saves a key. Returns the path of the file.
    pub(crate) fn save(&mut self, server: &ServerAddress, api_key: String) -> Result<PathBuf> {
        self.file.servers.insert(server.origin(), SavedKey { api_key });
        self.write()
    }

    /// Removes the key of a server. Returns whether there was one.
    pub(crate) fn remove(&mut self, server: &ServerAddress) -> Result<bool> {
        let had_one = self.file.servers.remove(&server.origin()).is_some();
        if had_one {
            self.write()?;
        }
        Ok(had_one)
    }

    fn write(&self) -> Result<PathBuf> {
        let Some(path) = &self.path else {
            return Err(Problem::usage("there is no place for the key")
                .hint("set HOME or XDG_CONFIG_HOME, or use TURNWIRE_API_KEY"));
        };
        let text = serde_json::to_string_pretty(&self.file).unwrap_or_default() + "\n";
        replace(path, &text).map_err(|error| {
            Problem::failure(format!("cannot write {}: {error}", path.display()))
        })?;
        Ok(path.clone())
    }
}

/// Replaces a private file. Temporary files are readable by their owner only.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// The file in the configuration directory of the user.
fn usual_path(environment: &Environment) -> Option<PathBuf> {
    let home = || Some(Path::new(environment.get("HOME")?).join(".config"));
    let config = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(config.join("turnwire/credentials.json"))
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
