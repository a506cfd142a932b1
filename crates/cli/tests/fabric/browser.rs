//! A headless Chromium, driven by the DevTools protocol over two pipes: no port, no driver program.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longest wait for an answer; a busy machine starts a browser slowly.
const ANSWER_MAX: Duration = Duration::from_secs(120);

pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    next_id: u64,
    _profile: tempfile::TempDir,
}

/// A Chromium on this machine, if there is one.
pub(crate) fn installed() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        names.into_iter().find(|name| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()));
    if found.is_none() {
        skip("the plan's page in a browser: no Chromium (Debian: apt-get install chromium)");
    }
    found
}

/// Says that a check is skipped; `cargo xtask test` lists it in its summary.
pub(super) fn skip(what: &str) {
    eprintln!("skipped: {what}");
    let Some(path) = std::env::var_os("AYATORI_SKIPS") else { return };
    let mut list =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the list of skips");
    // One write: other tests append at the same time.
    list.write_all(format!("{what}\n").as_bytes()).expect("the list of skips");
}

impl Browser {
    /// Opens a file.
    pub(crate) fn open(program: &str, page: &Path) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // The protocol's pipes are descriptors 3 and 4; the shell puts our two there.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", program])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--remote-debugging-pipe", "--window-size=1280,860", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell can be run");
        let input = child.stdin.take().unwrap();
        let messages = listen(child.stdout.take().unwrap());
        let mut browser =
            Browser { child, input, messages, session: String::new(), next_id: 0, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session =
            browser.call("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        browser.call("Page.enable", json!({}));
        browser.call("Network.enable", json!({}));
        let size = json!({ "width": 1280, "height": 860, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        browser.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        for _ in 0..200 {
            if browser.value("document.readyState") == json!("complete")
                && browser.value("location.protocol") == json!("file:")
            {
                return browser;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the page does not load");
    }

    /// The value of an expression in the page; an exception there fails the test.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let answer =
            self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// A click of the mouse on the middle of an element.
    pub(crate) fn click(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// The mouse over an element.
    pub(crate) fn hover(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        self.call(
            "Input.dispatchMouseEvent",
            json!({ "type": "mouseMoved", "x": x, "y": y, "button": "none" }),
        );
    }

    /// The mouse's wheel over an element, up by so many pixels.
    pub(crate) fn wheel(&mut self, selector: &str, up: i32) {
        let (x, y) = self.middle(selector);
        let event = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": -up });
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Presses the mouse at a point, moves it, and releases it.
    pub(crate) fn drag(&mut self, from: (f64, f64), by: (f64, f64)) {
        let steps = [("mousePressed", 0.0), ("mouseMoved", 0.5), ("mouseMoved", 1.0), ("mouseReleased", 1.0)];
        for (kind, part) in steps {
            let (x, y) = (from.0 + part * by.0, from.1 + part * by.1);
            let event =
                json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// A phone's screen with fingers in the place of a mouse.
    pub(crate) fn become_phone(&mut self) {
        let size = json!({ "width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": true, "maxTouchPoints": 2 }));
    }

    /// Fingers from these places to those.
    pub(crate) fn touch(&mut self, from: &[(f64, f64)], to: &[(f64, f64)]) {
        let points = |places: &[(f64, f64)]| {
            let points = places.iter().enumerate();
            json!(points.map(|(id, (x, y))| json!({ "x": x, "y": y, "id": id })).collect::<Vec<Value>>())
        };
        for (kind, places) in [("touchStart", from), ("touchMove", to), ("touchEnd", &[])] {
            self.call("Input.dispatchTouchEvent", json!({ "type": kind, "touchPoints": points(places) }));
        }
    }

    /// Presses keys, each by its name: `Enter`, `ArrowLeft`, `+`.
    pub(crate) fn keys(&mut self, names: &[&str]) {
        for name in names {
            for kind in ["keyDown", "keyUp"] {
                let text = if name.chars().count() == 1 && kind == "keyDown" { *name } else { "" };
                let event = json!({ "type": kind, "key": name, "text": text });
                self.call("Input.dispatchKeyEvent", event);
            }
        }
    }

    /// Replaces what stands in an input by typing.
    pub(crate) fn type_into(&mut self, selector: &str, text: &str) {
        self.value(&format!(
            "document.querySelector('{selector}').focus(); document.querySelector('{selector}').select()"
        ));
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// A picture of the page.
    pub(crate) fn screenshot(&mut self, file: &Path) {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let data = decode_base64(answer["data"].as_str().unwrap());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, data).unwrap();
    }

    pub(crate) fn middle(&mut self, selector: &str) -> (f64, f64) {
        let script = format!(
            "(() => {{ const element = document.querySelector('{selector}'); \
             element.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             const box = element.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let place = self.value(&script);
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next_id += 1;
        let mut message = json!({ "id": self.next_id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("the browser listens");
        loop {
            let answer =
                self.messages.recv_timeout(ANSWER_MAX).unwrap_or_else(|_| panic!("{method}: no answer"));
            if answer["method"] == "Network.requestWillBeSent" {
                let url = answer["params"]["request"]["url"].as_str().unwrap_or_default();
                assert!(url.starts_with("file:") || url.starts_with("data:"), "the page asks for {url}");
            }
            if answer["id"] == json!(self.next_id) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Messages end with a NUL.
fn listen(output: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut message = Vec::new();
        while reader.read_until(0, &mut message).is_ok_and(|count| count > 0) {
            message.pop();
            if let Ok(value) = serde_json::from_slice(&message)
                && sender.send(value).is_err()
            {
                return;
            }
            message.clear();
        }
    });
    receiver
}

fn decode_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(digit).collect();
    let mut bytes = Vec::new();
    for chunk in digits.chunks(4) {
        let word = chunk.iter().enumerate().fold(0, |word, (index, digit)| word | digit << (18 - 6 * index));
        bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    bytes
}
