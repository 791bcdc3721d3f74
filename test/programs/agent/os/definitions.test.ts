import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { XMLParser, XMLValidator } from 'fast-xml-parser';
import fc from 'fast-check';
import { commandScript } from '../../../../src/agent/os/service-manager.ts';
import {
  launchdJob,
  openrcScript,
  scheduledTask,
  windowsWord,
  systemdUnit,
  unitWord,
} from '../../../../src/agent/os/service-definitions.ts';

const PLACE = { programs: '/opt/muster', dataDir: '/var/lib/muster-agent', prefix: '' };
const ODD = { programs: `/opt/50% "off" & $HOME's <x>`, dataDir: '/var/lib/muster agent', prefix: '' };

describe('the descriptions of the service', () => {
  it('for systemd are a unit that restarts for ever, and cleans the environment', () => {
    expect(
      systemdUnit(PLACE),
    ).to.equal(`# Written by muster-agent service install. An upgrade of the agent does not change this file.
[Unit]
Description=Muster agent
Wants=network-online.target
After=network-online.target
# Without this, systemd gives up for ever after five restarts in ten seconds.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart=/opt/muster/watchdog/current/muster-agent watchdog run --programs /opt/muster --data-dir /var/lib/muster-agent
Restart=always
RestartSec=5
WatchdogSec=60
# The watchdog is asked to stop and stops the agent; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=60
UnsetEnvironment=NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NODE_TLS_REJECT_UNAUTHORIZED
# For HTTPS_PROXY, NO_PROXY and NODE_EXTRA_CA_CERTS.
EnvironmentFile=-/etc/default/muster-agent
OOMPolicy=continue
KeyringMode=private
LimitCORE=0

[Install]
WantedBy=multi-user.target
`);
  });

  it('for systemd are what systemd itself accepts', async function () {
    this.timeout(120_000);
    const folder = await mkdtemp(path.join(tmpdir(), 'muster-unit-'));
    try {
      const programs = path.join(folder, 'a 50% $folder');
      const program = path.join(programs, 'watchdog/current/muster-agent');
      await mkdir(path.dirname(program), { recursive: true });
      await writeFile(program, '#!/bin/sh\n');
      await chmod(program, 0o755);
      const unit = path.join(folder, 'muster-agent.service');
      await writeFile(unit, systemdUnit({ ...PLACE, programs }));
      let said: string;
      try {
        said = execFileSync('systemd-analyze', ['verify', '--man=no', unit], {
          encoding: 'utf8',
          stdio: ['ignore', 'pipe', 'pipe'],
        });
      } catch (error) {
        if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
        said = String(error instanceof Error && 'stderr' in error ? error.stderr : error);
      }
      expect(said.split('\n').filter((line) => line.includes('muster-agent'))).to.deep.equal([]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('quote words as systemd reads them', () => {
    expect(unitWord('/opt/plain-1.0')).to.equal('/opt/plain-1.0');
    expect(unitWord('/opt/two words')).to.equal('"/opt/two words"');
    expect(unitWord(String.raw`a"b\c`)).to.equal(String.raw`"a\"b\\c"`);
    expect(unitWord('100%$HOME')).to.equal('"100%%$$HOME"');
    // The name of a program may not have these, however they are quoted.
    expect(() => systemdUnit({ ...PLACE, programs: '/opt/"a"' })).to.throw('quotation marks');
    expect(() => unitWord('a\nExecStartPre=/bin/sh')).to.throw('control characters');
  });

  it('for OpenRC are a script that restarts for ever, asks before it kills, and cleans the environment', () => {
    expect(openrcScript(PLACE)).to.match(/^#!\/sbin\/openrc-run\n/);
    const lines = openrcScript(PLACE).split('\n');
    expect(lines).to.include.members([
      'supervisor=supervise-daemon',
      'respawn_delay=5',
      'respawn_max=0',
      'retry=TERM/60/KILL/5',
      'rc_ulimit="-c 0"',
      'unset NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NODE_TLS_REJECT_UNAUTHORIZED',
    ]);
    expect(() => openrcScript({ ...PLACE, dataDir: '/a\nb' })).to.throw('control characters');
  });

  it('for OpenRC start the program with its folders, whatever their names are', () => {
    const odd = { ...ODD, programs: `${ODD.programs}  * \`id\`` };
    for (const place of [PLACE, odd]) {
      // As OpenRC reads it: the script is sourced, and what it names is expanded once more.
      const words = execFileSync('sh', [
        '-c',
        `${openrcScript(place)}\neval printf '%s\\\\n' $command $command_args`,
      ]);
      expect(words.toString().trimEnd().split('\n')).to.deep.equal([
        `${place.programs}/watchdog/current/muster-agent`,
        'watchdog',
        'run',
        '--programs',
        place.programs,
        '--data-dir',
        place.dataDir,
      ]);
    }
  });

  it('for launchd and the Task Scheduler are XML with the words unchanged', () => {
    const parser = new XMLParser({ ignoreAttributes: true });
    const job = launchdJob(ODD);
    expect(XMLValidator.validate(job)).to.equal(true);
    expect(parser.parse(job).plist.dict.array.string).to.deep.equal([
      `${ODD.programs}/watchdog/current/muster-agent`,
      'watchdog',
      'run',
      '--programs',
      ODD.programs,
      '--data-dir',
      ODD.dataDir,
    ]);
    const task = scheduledTask(PLACE, String.raw`C:\Program Files\Muster\watchdog\1.0.0\muster-agent.exe`);
    expect(XMLValidator.validate(task)).to.equal(true);
    const { Actions, Settings, Principals } = parser.parse(task).Task;
    expect(Actions.Exec.Command).to.equal(
      String.raw`"C:\Program Files\Muster\watchdog\1.0.0\muster-agent.exe"`,
    );
    expect(Actions.Exec.Arguments).to.equal(
      'watchdog run --programs /opt/muster --data-dir /var/lib/muster-agent',
    );
    expect(Settings).to.include({ ExecutionTimeLimit: 'PT0S', StopIfGoingOnBatteries: false });
    expect(Principals.Principal.UserId).to.equal('S-1-5-18');
    expect(() => launchdJob({ ...PLACE, dataDir: '/a\u0000b' })).to.throw('control characters');
  });

  it('quote words for Windows so that a program gets them back', () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[ \\"a&<]*$/), { minLength: 1, maxLength: 4 }), (words) => {
        expect(splitWindows(words.map(windowsWord).join(' '))).to.deep.equal(words);
      }),
    );
  });

  it('include a command for people that finds the folders again, whatever their names are', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'muster-command-'));
    try {
      const place = { programs: path.join(folder, `it's $HOME "x" }`), dataDir: `/data of 'us'`, prefix: '' };
      const program = path.join(place.programs, 'watchdog/current/muster-agent');
      await mkdir(path.dirname(program), { recursive: true });
      await writeFile(program, '#!/bin/sh\nprintf "%s|" "$MUSTER_AGENT_DIR" "$@"\n');
      await chmod(program, 0o755);
      const command = path.join(folder, 'muster-agent');
      await writeFile(command, commandScript(place));
      await chmod(command, 0o755);
      const env = { PATH: process.env['PATH'] };
      expect(execFileSync(command, ['a b', 'c'], { encoding: 'utf8', env })).to.equal(`/data of 'us'|a b|c|`);
      const given = { ...env, MUSTER_AGENT_DIR: '/other' };
      expect(execFileSync(command, [], { encoding: 'utf8', env: given })).to.equal('/other|');
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

/** CommandLineToArgvW, as Microsoft describes it. */
function splitWindows(line: string): string[] {
  const words: string[] = [];
  let word = '';
  let isQuoted = false;
  let isWord = false;
  for (let at = 0; at < line.length; at++) {
    const slashes = /^\\*/.exec(line.slice(at))?.[0].length ?? 0;
    if (slashes > 0) {
      const beforeQuote = line[at + slashes] === '"';
      word += '\\'.repeat(beforeQuote ? Math.floor(slashes / 2) : slashes);
      at += slashes - 1;
      isWord = true;
      if (beforeQuote && slashes % 2 === 1) {
        word += '"';
        at += 1;
      }
    } else if (line[at] === '"') {
      isQuoted = !isQuoted;
      isWord = true;
    } else if (line[at] === ' ' && !isQuoted) {
      if (isWord) words.push(word);
      word = '';
      isWord = false;
    } else {
      word += line[at];
      isWord = true;
    }
  }
  return isWord ? [...words, word] : words;
}
