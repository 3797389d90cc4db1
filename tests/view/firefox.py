# SPDX-License-Identifier: MIT
"""Controls a headless Firefox by its Marionette protocol: https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html. Messages are
`LENGTH:JSON`, and the commands those of WebDriver, so no other program is needed."""
import json
import os
import re
import shutil
import socket
import subprocess

from browser import Browser

FIREFOX = shutil.which('firefox-esr') or shutil.which('firefox')
PREFERENCES = {'app.normandy.enabled': False, 'app.update.disabledForTesting': True, 'browser.download.folderList': 2, 'browser.download.useDownloadDir': True,
               'browser.download.always_ask_before_handling_new_types': False, 'browser.download.alwaysOpenPanel': False, 'browser.newtabpage.enabled': False,
               'browser.safebrowsing.downloads.enabled': False, 'browser.safebrowsing.malware.enabled': False, 'browser.safebrowsing.phishing.enabled': False,
               'browser.shell.checkDefaultBrowser': False, 'browser.startup.page': 0, 'datareporting.policy.dataSubmissionEnabled': False, 'extensions.enabledScopes': 0,
               'extensions.getAddons.cache.enabled': False, 'network.captive-portal-service.enabled': False, 'network.connectivity-service.enabled': False,
               'network.proxy.type': 0, 'remote.prefs.recommended': True, 'services.settings.server': '', 'toolkit.telemetry.enabled': False, 'ui.prefersReducedMotion': 1}
# In the browser's own context: what the console has of pages, and the addresses that pages ask other hosts for.
WINDOW = 'Services.wm.getMostRecentWindow("navigator:browser")'
WATCH = f'''const {{asked}} = Object.assign({WINDOW}, {{asked: []}}); Services.console.reset();
Services.obs.addObserver(channel => {{ channel.QueryInterface(Ci.nsIHttpChannel); if (channel.loadInfo.browsingContext) asked.push(channel.URI.spec); }}, "http-on-modify-request");'''
COMPLAINTS = '''const said = Services.console.getMessageArray().filter(m => m instanceof Ci.nsIScriptError && m.category.startsWith("content") || /Content-Security-Policy/.test(m.message))
.map(m => m.message); Services.console.reset(); return said;'''
COMMANDS = [(r'/url', 'Navigate'), (r'/execute/sync', 'ExecuteScript'), (r'/execute/async', 'ExecuteAsyncScript'), (r'/element', 'FindElement'), (r'/element/([^/]+)/click', 'ElementClick'),
            (r'/element/([^/]+)/value', 'ElementSendKeys'), (r'/actions', 'PerformActions'), (r'/screenshot', 'TakeScreenshot')]


class Firefox(Browser):
    """The same verbs as those of Browser."""

    def __init__(self, downloads, size='1280,900', dark=False):
        self.profile = f'{downloads}/firefox'
        os.mkdir(self.profile)
        with open(f'{self.profile}/user.js', 'w', encoding='utf-8') as f:
            preferences = {**PREFERENCES, 'browser.download.dir': downloads, 'marionette.port': 0, 'layout.css.prefers-color-scheme.content-override': 0 if dark else 1}
            f.writelines(f'user_pref({json.dumps(key)}, {json.dumps(value)});\n' for key, value in preferences.items())
        width, height = size.split(',')
        env = dict(os.environ, HOME=downloads, MOZ_HEADLESS_WIDTH=width, MOZ_HEADLESS_HEIGHT=height, MOZ_DISABLE_CONTENT_SANDBOX='1')
        self.session, self.socket, self.number = '', None, 0
        self.process = subprocess.Popen([FIREFOX, '--headless', '--no-remote', '--marionette', '--remote-allow-system-access', '--profile', self.profile, 'about:blank'],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        try:
            self.socket = self.wait(self.connected, 120)
            self.stream = self.socket.makefile('rb')
            self.message()
            self.command('NewSession', {'capabilities': {'alwaysMatch': {'unhandledPromptBehavior': 'ignore'}}})
            self.inside('chrome', WATCH)
        except BaseException:
            self.close()
            raise

    def connected(self):
        """The port, which Firefox chooses, is written to a file in its profile."""
        try:
            with open(f'{self.profile}/MarionetteActivePort', encoding='utf-8') as f:
                return socket.create_connection(('127.0.0.1', int(f.read())), timeout=120)
        except (OSError, ValueError):
            assert self.process.poll() is None, 'firefox has ended'
            return None

    def message(self):
        length = b''
        while (byte := self.stream.read(1)) != b':':
            assert byte, 'firefox has ended'
            length += byte
        return json.loads(self.stream.read(int(length)))

    def command(self, name, parameters=None):
        self.number += 1
        data = json.dumps([0, self.number, name if ':' in name else f'WebDriver:{name}', parameters or {}]).encode()
        self.socket.sendall(b'%d:%s' % (len(data), data))
        _, number, error, result = self.message()
        assert number == self.number, 'the answer to another command'
        assert not error, json.dumps(error)[:1000]
        return result

    def call(self, method, path, data=None):
        for pattern, name in COMMANDS:
            if found := re.fullmatch(pattern, path):
                result = self.command(name, {**(data or {}), **({'id': found[1]} if found.groups() else {}), **({'full': False} if name == 'TakeScreenshot' else {})})
                return result.get('value') if isinstance(result, dict) else result
        raise AssertionError(f'firefox has no {method} {path}')

    def click(self, selector):
        """Of a row of a table its first cell: Firefox does not scroll to rows."""
        super().click(f'{selector} td' if self.js('return document.querySelector(arguments[0]).localName', selector) == 'tr' else selector)

    def pointer(self, selector, *places, button=False):
        """A pointer that stays where it is says nothing to the page, so it comes from the pixel beside."""
        x, y = places[0]
        super().pointer(selector, *([] if button else [(x + 1, y)]), *places, button=button)

    def inside(self, context, script):
        self.command('Marionette:SetContext', {'value': context})
        try:
            return self.command('ExecuteScript', {'script': script, 'args': []})['value']
        finally:
            self.command('Marionette:SetContext', {'value': 'content'})

    def close(self):
        if self.socket:
            self.socket.close()
        self.process.kill()
        self.process.wait()

    def complaints(self):
        return self.inside('chrome', COMPLAINTS)

    def requests(self):
        """URLs of other hosts; those of files are not seen."""
        return self.inside('chrome', f'return {WINDOW}.asked.splice(0);')
