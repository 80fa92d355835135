//! A browser without a window, by W3C's protocol for drivers and Chromium's own commands in it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// A page in a browser, which ends with this.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Child,
    /// Kept: who writes to a pipe that nobody reads is ended.
    _told: BufReader<ChildStdout>,
    port: u16,
    session: String,
}

/// What is missing for a browser, and how to get it.
pub(crate) fn missing() -> Option<&'static str> {
    let works = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let there = works("chromedriver") && (works("chromium") || works("google-chrome"));
    (!there)
        .then_some("Chromium or ChromeDriver is missing: apt-get install chromium chromium-driver")
}

impl Browser {
    /// Starts one; it keeps its files at `profile`.
    pub(crate) fn start(profile: &Path) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(driver.stdout.take().unwrap());
        let port = loop {
            let mut line = String::new();
            assert_ne!(told.read_line(&mut line).unwrap(), 0, "ChromeDriver names its port");
            let named = line.split_once("successfully on port ");
            let port = named.and_then(|(_, rest)| rest.trim_end_matches(['.', '\n']).parse().ok());
            if let Some(port) = port {
                break port;
            }
        };
        let mut browser = Self { driver, _told: told, port, session: String::new() };
        let profile = format!("--user-data-dir={}", profile.display());
        // Root may not have Chromium's sandbox; the pages are ours.
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", &profile];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"performance": "ALL"},
        }}});
        let session = browser.call("session", &wanted);
        session["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        // What it shows first of itself is not what is asked about.
        browser.ask("url", &json!({"url": "about:blank"}));
        browser.requested();
        browser
    }

    /// Opens a file.
    pub(crate) fn open(&self, page: &Path) {
        self.ask("url", &json!({"url": format!("file://{}", page.display())}));
    }

    /// A screen of this size, in CSS pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let is_phone = width < 600;
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone
        });
        self.chrome("Emulation.setDeviceMetricsOverride", &size);
    }

    /// What the user's system prefers.
    pub(crate) fn prefer(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.chrome("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// What a function's body returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Clicks what a CSS selector finds.
    pub(crate) fn click(&self, selector: &str) {
        let id = self.find(selector);
        self.ask(&format!("element/{id}/click"), &json!({}));
    }

    /// Types into what a CSS selector finds.
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let id = self.find(selector);
        self.ask(&format!("element/{id}/value"), &json!({"text": text}));
    }

    /// The addresses that were asked for since the last time.
    pub(crate) fn requested(&self) -> Vec<String> {
        let log = self.ask("se/log", &json!({"type": "performance"}));
        let entries = log.as_array().unwrap().iter();
        let messages = entries.map(|entry| {
            let text = entry["message"].as_str().unwrap();
            serde_json::from_str::<Value>(text).unwrap()["message"].clone()
        });
        messages
            .filter(|message| message["method"] == "Network.requestWillBeSent")
            .map(|message| message["params"]["request"]["url"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The screen as a picture.
    pub(crate) fn picture(&self) -> String {
        let taken = self.chrome("Page.captureScreenshot", &json!({"format": "png"}));
        taken["data"].as_str().unwrap().to_owned()
    }

    /// The page as it is printed, encoded for text.
    pub(crate) fn printed(&self) -> String {
        self.ask("print", &json!({})).as_str().unwrap().to_owned()
    }

    fn find(&self, selector: &str) -> String {
        let found = self.ask("element", &json!({"using": "css selector", "value": selector}));
        let id = found.as_object().unwrap().values().next().unwrap();
        id.as_str().unwrap().to_owned()
    }

    fn chrome(&self, command: &str, parameters: &Value) -> Value {
        self.ask("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    fn ask(&self, what: &str, body: &Value) -> Value {
        self.call(&format!("session/{}/{what}", self.session), body)
    }

    fn call(&self, path: &str, body: &Value) -> Value {
        let value = self.send("POST", path, body).unwrap()["value"].clone();
        assert!(value.get("error").is_none(), "{path}: {value}");
        value
    }

    /// One request and its answer.
    fn send(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        let body = body.to_string();
        let head = format!(
            "{method} /{path} HTTP/1.1\r\nHost: localhost:{}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(told) = line.strip_prefix("content-length:") {
                length = told.trim().parse().map_err(io::Error::other)?;
            }
            if line.is_empty() {
                break;
            }
        }
        // The connection stays open behind it.
        let mut text = vec![0; length];
        answer.read_exact(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A browser whose session ends closes itself; one whose driver is killed stays behind.
        let _ = self.send("DELETE", &format!("session/{}", self.session), &json!({}));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
