"""Headless Chromium, used as a person would use it, with a record of its requests and errors."""

import base64
import json
import pathlib
import shutil
import time
import urllib.request

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

PATIENCE = 60


class Browser:
    def __init__(self, url, pictures, axe):
        self.url, self.pictures, self.axe = url.rstrip("/"), pathlib.Path(pictures), pathlib.Path(axe).read_text()
        self.pictures.mkdir(parents=True, exist_ok=True)
        options = Options()
        options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser")
        # A container has no sandbox and little shared memory.
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.other_hosts = set()
        self.size(1280, 900)
        self.scheme("light")

    # Viewing

    def size(self, width, height):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def cdp(self, command, **parameters):
        return self.driver.execute_cdp_cmd(command, parameters)

    def js(self, script, *values):
        return self.driver.execute_script(script, *values)

    def open(self, address):
        """Loads the page afresh, as from a bookmark."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/{address}")

    def picture(self, name):
        # On a scrolled page, the sticky header would appear in the middle of the screenshot.
        place = self.js("const y = scrollY; scrollTo(0, 0); return y")
        time.sleep(0.1)
        data = self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        (self.pictures / f"{name}.png").write_bytes(base64.b64decode(data))
        self.js("scrollTo(0, arguments[0])", place)

    # Finding

    def until(self, what, condition, patience=PATIENCE):
        end = time.monotonic() + patience
        while True:
            try:
                value = condition()
                if value:
                    return value
            except (StaleElementReferenceException, WebDriverException):
                pass
            if time.monotonic() > end:
                raise AssertionError(f"waited {patience} s for: {what}\n{self.driver.current_url}\n{self.text()[:2000]}")
            time.sleep(0.04)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector, text=None):
        """The first visible element, optionally one that contains this text."""
        def find():
            for element in self.all(selector):
                if element.is_displayed() and (text is None or text in element.text):
                    return element
        return self.until(f"{selector} {text or ''}", find)

    def text(self):
        return self.driver.find_element(By.TAG_NAME, "body").text

    def sees(self, text, patience=PATIENCE):
        self.until(f"the words “{text}”", lambda: text in self.text(), patience)

    # Acting

    def click(self, selector, text=None):
        element = self.one(selector, text)
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        return element

    def write(self, selector, text):
        element = self.one(selector)
        element.clear()
        element.send_keys(text)
        return element

    def press(self, *keys):
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def focused(self):
        return self.driver.switch_to.active_element

    # Checking

    def console_errors(self, expected=()):
        """Errors in the console. The browser also logs every failed request; a step lists the statuses that it
        provokes in `expected`."""
        errors = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [error for error in errors if not any(f"status of {status}" in error for status in expected)]

    def note_requests(self):
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                address = message["params"]["request"]["url"]
                if not address.startswith((self.url, "data:", "about:", "blob:")):
                    self.other_hosts.add(address)

    def axe_violations(self):
        self.js(self.axe)
        run = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done, (e) => done({error: String(e)}))"
        result = self.driver.execute_async_script(run)
        assert "violations" in result, result
        return [
            f"{v['id']} ({v['impact']}): {n['html'][:160]} {n.get('failureSummary', '')[:300]}"
            for v in result["violations"] if v["impact"] in ("serious", "critical") for n in v["nodes"]
        ]

    def close(self):
        self.driver.quit()


def api(url, method, path, body=None, space="default"):
    """Calls the API directly, for actions that the page does not offer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url.rstrip("/") + path, data, {"Content-Type": "application/json", "X-Memoir-Space": space}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return None if answer.status == 204 else json.load(answer)
