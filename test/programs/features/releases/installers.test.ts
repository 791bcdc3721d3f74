import { execFileSync } from 'node:child_process';
import { expect } from 'chai';
import fc from 'fast-check';
import { powershellInstaller } from '../../../../src/features/releases/powershell-installer.ts';
import { powershellWord, shellWord } from '../../../../src/features/releases/installer.ts';
import { shellInstaller } from '../../../../src/features/releases/shell-installer.ts';
import { newToken } from '../../../../src/platform/secrets/tokens.ts';
import {
  createReleaseBench,
  type ReleaseBench,
  sha256,
  upload,
} from '../../../support/releases/release-support.ts';

const AT = 'https://rmm.example.com';
const EMPTY = { server: AT, key: '', programs: [] };

describe('installers', () => {
  describe('as the server hands them out', () => {
    let bench: ReleaseBench;
    before(async () => {
      bench = await createReleaseBench({ env: { PUBLIC_URL: `${AT}/`, AGENT_AUTO_PROMOTE: 'false' } });
    });
    after(async () => bench.close());
    const get = (path: string) => fetch(`${bench.app.url}${path}`);
    const promote = (version: string) =>
      bench.app.call('POST', '/agent-versions/promote', { token: bench.admin.token, body: { version } });

    it('are text for everybody that nobody keeps, at the root and in the API', async () => {
      for (const path of ['/install.sh', '/install.ps1', '/api/v1/install.sh', '/api/v1/install.ps1']) {
        const answer = await get(path);
        expect(answer.status, path).to.equal(200);
        expect(answer.headers.get('content-type'), path).to.equal('text/plain; charset=utf-8');
        expect(answer.headers.get('cache-control'), path).to.contain('no-store');
        expect(await answer.text(), path)
          .to.contain(AT)
          .and.not.to.contain(`${AT}//`);
      }
    });

    it('say that there is no agent, until one is promoted for the platform', async () => {
      const bytes = Buffer.from('an executable');
      await upload(bench, { version: '1.2.3', platform: 'watchdog/linux/x64', bytes });
      await upload(bench, { version: '1.2.3', platform: 'agent/linux/arm64' });
      const before = await (await get('/install.sh')).text();
      expect(before).not.to.contain('linux-x64)');
      expect(before).to.contain('This server has no agent for $1.');
      expect((await promote('1.2.3')).status).to.equal(200);
      const after = await (await get('/install.sh')).text();
      expect(after).to.contain(`sha256='${sha256(bytes)}'`);
      expect(after).to.contain(
        `url='${AT}/api/v1/agent-versions/1.2.3/download?component=watchdog&os=linux&architecture=x64'`,
      );
      // The script of the agent is no program that installs.
      expect(after).not.to.contain('linux-arm64)');
      expect(await (await get('/install.ps1')).text()).not.to.contain(sha256(bytes));
    });

    it('hold the key that is asked for, which has to be one', async () => {
      const key = newToken('enrollmentKey');
      expect(await (await get(`/install.sh?key=${key}`)).text()).to.contain(`given_key='${key}'`);
      expect(await (await get(`/install.ps1?key=${key}`)).text()).to.contain(`Key      = '${key}'`);
      const bad = [
        '',
        'menr_',
        `${key}'`,
        `${key}\n`,
        `';reboot;'`,
        '$(reboot)',
        '`reboot`',
        `menr_${"'".repeat(46)}`,
        `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`,
        newToken('agent'),
        'x'.repeat(100_000).slice(0, 7000),
      ];
      for (const one of bad) {
        for (const path of ['/install.sh', '/install.ps1']) {
          const answer = await get(`${path}?key=${encodeURIComponent(one)}`);
          expect(answer.status, one).to.equal(400);
          expect(answer.headers.get('content-type')).to.contain('json');
        }
      }
      expect((await get(`/install.sh?key=${key}&key=${key}`)).status).to.equal(400);
      expect((await get('/install.sh?key[]=1')).status).to.be.oneOf([200, 400]);
    });

    it('are limited for each network', async () => {
      const statuses: number[] = [];
      for (let at = 0; at < 320; at++) statuses.push((await get('/install.sh')).status);
      expect(statuses.at(-1)).to.equal(429);
    });
  });

  it('quote any text as one word of a shell', () => {
    const plain = fc.string({ unit: 'binary', maxLength: 40 }).filter((text) => !/\p{Cc}|\p{Cs}/u.test(text));
    fc.assert(
      fc.property(plain, (text) => {
        const said = execFileSync('sh', ['-c', `printf %s ${shellWord(text)}`], { encoding: 'utf8' });
        expect(said).to.equal(text);
      }),
      { numRuns: 40 },
    );
    for (const text of ['a\nb', 'a\u0000b', 'a\rb']) {
      expect(() => shellWord(text)).to.throw('control characters');
      expect(() => powershellWord(text)).to.throw('control characters');
    }
  });

  it('double every mark that ends a string of PowerShell', () => {
    expect(powershellWord("it's ’so‘")).to.equal("'it''s ’’so‘‘'");
    expect(powershellWord('$(reboot) `n')).to.equal("'$(reboot) `n'");
  });

  it('for the shell are one group of commands that sh accepts', () => {
    const text = shellInstaller(EMPTY);
    execFileSync('sh', ['-n'], { input: text });
    const [first, ...lines] = text.trimEnd().split('\n');
    const commands = lines.filter((line) => !line.startsWith('#'));
    expect(first).to.equal('#!/bin/sh');
    expect([commands[0], commands.at(-1)]).to.deep.equal(['{', '}']);
  });

  it('for PowerShell define functions, and call one in the last line only', () => {
    const text = powershellInstaller({
      ...EMPTY,
      programs: [{ os: 'windows', architecture: 'x64', version: '1.0.0', sha256: 'ab'.repeat(32), size: 1 }],
    });
    const top = text
      .split('\n')
      .filter((line) => /^\S/.test(line) && !line.startsWith('#'))
      .filter((line) => !/^function [A-Z][\w-]+(\(.*\))? \{$/.test(line) && line !== '}');
    expect(top).to.deep.equal([
      'if ($env:MUSTER_ENROLLMENT_KEY -or (Get-MusterSource).Key) { Install-MusterAgent }',
    ]);
    expect(text.trimEnd().endsWith(top[0] ?? '')).to.equal(true);
    expect(bracketsOf(text)).to.equal('');
    expect(text).to.contain(`'x64' = @{ Url = '${AT}/api/v1/agent-versions/1.0.0/download`);
    // Nothing is put together as text and then run.
    expect(text.replaceAll(/^#.*$/gm, '')).not.to.match(/Invoke-Expression|\biex\b/);
  });
});

/** The brackets that are left open, outside of strings and comments. */
function bracketsOf(text: string): string {
  const code = text.replaceAll(/^#.*$|'(?:[^']|'')*'|"(?:[^"]|"")*"/gm, '').replaceAll(/[^{}()[\]]/g, '');
  let rest = code;
  for (let before = ''; before !== rest; ) {
    before = rest;
    rest = rest.replaceAll(/\{\}|\(\)|\[\]/g, '');
  }
  return rest;
}
