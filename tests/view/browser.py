# SPDX-License-Identifier: MIT
"""Controls a headless Chromium by the WebDriver protocol: https://www.w3.org/TR/webdriver2/."""
import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
DRIVER = shutil.which('chromedriver')
ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'


class Browser:
    """downloads: the directory where files that the page saves appear."""

    def __init__(self, downloads, size='1280,900', dark=False):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        self.base = f'http://127.0.0.1:{port}'
        self.profile = f'{downloads}/profile'
        env = dict(os.environ, HOME=downloads)
        self.process = subprocess.Popen([DRIVER, f'--port={port}'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        self.session = ''
        try:
            self.wait(self.is_up)
            arguments = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--disable-background-networking',
                         '--disable-component-update', '--force-prefers-reduced-motion', '--disable-sync', '--disable-extensions', '--proxy-server=direct://', f'--window-size={size}',
                         f'--user-data-dir={self.profile}']
            if dark:
                arguments.append('--blink-settings=preferredColorScheme=0')
            options = {'binary': CHROMIUM, 'args': arguments, 'perfLoggingPrefs': {'enablePage': False}}
            wanted = {'browserName': 'chrome', 'goog:loggingPrefs': {'browser': 'ALL', 'performance': 'ALL'}, 'goog:chromeOptions': options}
            self.session = '/session/' + self.call('POST', '/session', {'capabilities': {'alwaysMatch': wanted}})['sessionId']
            self.call('POST', self.session + '/goog/cdp/execute', {'cmd': 'Browser.setDownloadBehavior', 'params': {'behavior': 'allow', 'downloadPath': downloads}})
        except BaseException:
            self.close()
            raise

    def is_up(self):
        try:
            return self.call('GET', '/status')['ready']
        except OSError:
            return False

    def call(self, method, path, data=None):
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.base + path, method=method, data=body, headers={'Content-Type': 'application/json'})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as reply:
                return json.load(reply)['value']
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()[:1000]) from None

    def close(self):
        try:
            if self.session:
                self.call('DELETE', self.session)
        finally:
            self.process.kill()
            self.process.wait()

    @staticmethod
    def wait(true, seconds=60):
        until = time.monotonic() + seconds
        while not (answer := true()):
            assert time.monotonic() < until, 'waited in vain'
            time.sleep(0.02)
        return answer

    def open(self, url):
        self.call('POST', self.session + '/url', {'url': 'about:blank'})
        self.call('POST', self.session + '/url', {'url': url})
        self.wait(lambda: self.js('return document.documentElement.dataset.ready'))

    def js(self, script, *arguments):
        return self.call('POST', self.session + '/execute/sync', {'script': script, 'args': list(arguments)})

    def fragment(self):
        """The page's link, once it does not change any more: after many changes it follows later."""
        before = None
        while before != (now := self.js('return location.hash')):
            before = now
            time.sleep(0.4)
        return now

    def element(self, selector):
        return self.call('POST', self.session + '/element', {'using': 'css selector', 'value': selector})[ELEMENT]

    def click(self, selector):
        self.call('POST', f'{self.session}/element/{self.element(selector)}/click', {})

    def keys(self, selector, text):
        self.call('POST', f'{self.session}/element/{self.element(selector)}/value', {'text': text})

    def choose(self, selector, value):
        self.click(f'{selector} option[value="{value}"]')

    def text(self, selector):
        return self.js('return document.querySelector(arguments[0]).textContent', selector)

    def pointer(self, selector, *places, button=False):
        """Moves the pointer to places within an element, in pixels from its left upper corner; with a button: drags. In a flame graph, y counts rows of 18 px."""
        box = self.js('document.querySelector(arguments[0]).scrollIntoView({block: "center"}); const e = document.querySelector(arguments[0]), b = e'
                      '.getBoundingClientRect(); return [b.left, b.top, (e.dataset.row || 18) / 18]', selector)
        moves = [{'type': 'pointerMove', 'x': round(box[0] + x), 'y': round(box[1] + y * box[2]), 'duration': 0} for x, y in places]
        if button:
            moves = moves[:1] + [{'type': 'pointerDown', 'button': 0}] + moves[1:] + [{'type': 'pointerUp', 'button': 0}]
        self.call('POST', self.session + '/actions', {'actions': [{'type': 'pointer', 'id': 'mouse', 'parameters': {'pointerType': 'mouse'}, 'actions': moves}]})

    def screenshot(self, path):
        with open(path, 'wb') as f:
            f.write(base64.b64decode(self.call('GET', self.session + '/screenshot')))

    def complaints(self):
        """The lines of the browser's console since the last call."""
        return [line['message'] for line in self.call('POST', self.session + '/se/log', {'type': 'browser'})]

    def requests(self):
        """URLs that pages asked for since the last call, those inside the page itself and of the browser's own pages left out."""
        events = [json.loads(line['message'])['message'] for line in self.call('POST', self.session + '/se/log', {'type': 'performance'})]
        urls = [e['params']['request']['url'] for e in events if e['method'] == 'Network.requestWillBeSent']
        return [url for url in urls if not url.startswith(('data:', 'blob:', 'about:', 'chrome:', 'chrome-untrusted:'))]
