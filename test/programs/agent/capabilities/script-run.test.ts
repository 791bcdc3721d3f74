import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import {
  scriptHandlers,
  findInterpreters,
  ScriptFolder,
} from '../../../../src/agent/capabilities/scripts.ts';
import {
  AGENT_MESSAGE_MAX_BYTES,
  COMMANDS,
  CommandResult,
  SCRIPT_OUTPUT_MAX,
  type CommandOutput,
  type CommandPayload,
  type CommandRow,
  type ScriptLanguage,
} from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { startScriptedHub, type ScriptedHub } from '../../../support/scripted-hub.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';
import { startTestAgent, temporaryFolder, type TestAgent } from '../../../support/agent/test-agent.ts';

/** Far less than what the scripts themselves would take; on an idle machine it is half a second. */
const SOON_MS = 15_000;

type Output = CommandOutput<'script.run'>;
type Row = CommandRow<'script.run'>;

/** Real interpreters, as they are on this machine. */
describe('scripts on the agent', () => {
  const testClock = useTestClock();
  let hub: ScriptedHub;
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;
  let agent: TestAgent;
  let folder: string;
  let warnings: string[];

  beforeEach(async () => {
    hub = await startScriptedHub();
    temporary = await temporaryFolder();
    ({ folder } = temporary);
    warnings = [];
    await start(await findInterpreters());
  });
  afterEach(async () => {
    await agent.stop();
    await hub.close();
    await temporary.remove();
  });

  async function start(interpreters: Awaited<ReturnType<typeof findInterpreters>>): Promise<void> {
    const scripts = new ScriptFolder(folder, (message) => warnings.push(message));
    const connections = hub.sockets.length;
    agent = await startTestAgent({
      server: hub.url,
      dataDir: folder,
      work: scriptHandlers(interpreters, scripts),
    });
    await eventually(
      () => hub.sockets.length,
      (count) => count > connections,
    );
  }
  const begin = (content: string, more: Partial<CommandPayload<'script.run'>> = {}) =>
    hub.command('script.run', { language: 'bash', content, timeoutSeconds: 30, ...more });
  const resultOf = async (id: string, withinMs = 20_000) => {
    const result = await eventually(
      () => hub.results.find((candidate) => candidate.id === id),
      (found) => found !== undefined,
      withinMs,
    );
    // As the server reads it.
    return CommandResult.parse(result);
  };
  /** The same, while time passes quickly for the agent: a second in a tenth of one, so that a script has its time to end. */
  const resultInTime = async (id: string) => {
    await eventually(
      async () => {
        await testClock.advance(200);
        return hub.results.some((candidate) => candidate.id === id);
      },
      (is) => is,
    );
    return resultOf(id);
  };
  const run = async (content: string, more: Partial<CommandPayload<'script.run'>> = {}) => {
    const { status, output, error } = await resultOf(await begin(content, more));
    expect(status, JSON.stringify(error)).to.equal('succeeded');
    return COMMANDS['script.run'].output.parse(output);
  };
  const rowsOf = () => hub.rows.flatMap(({ rows }) => rows as Row[]);
  const written = (file: string) =>
    eventually(
      async () => (existsSync(file) ? await readFile(file, 'utf8') : ''),
      (text) => text.trim() !== '',
    );
  const isAlive = (pid: number) => {
    try {
      // What has ended and waits for its parent to notice does nothing any more.
      return !/^\d+ \(.*\) Z/.test(readStat(pid));
    } catch {
      return false;
    }
  };
  const readStat = (pid: number) => {
    process.kill(pid, 0);
    return existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'utf8') : '';
  };

  it('print any character in python, whatever the code page of the machine', async () => {
    const names = ['LC_ALL', 'PYTHONCOERCECLOCALE', 'PYTHONUTF8'] as const;
    const before = names.map((name) => [name, process.env[name]] as const);
    // As on Windows, and under service managers that set no language.
    Object.assign(process.env, { LC_ALL: 'C', PYTHONCOERCECLOCALE: '0', PYTHONUTF8: '0' });
    try {
      expect((await run('print("Müller, 東京")', { language: 'python' })).stdout).to.equal('Müller, 東京\n');
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    }
  });

  it('run in bash and in python, with separate streams and the exit code', async () => {
    expect(await run('echo out; echo err >&2; exit 3')).to.deep.equal({
      exitCode: 3,
      stdout: 'out\n',
      stderr: 'err\n',
      truncated: false,
    });
    const python = 'import sys\nprint("out")\nprint("err", file=sys.stderr)\nsys.exit(4)';
    expect(await run(python, { language: 'python' })).to.deep.equal({
      exitCode: 4,
      stdout: 'out\n',
      stderr: 'err\n',
      truncated: false,
    });
    expect((await run('kill -9 $$')).exitCode).to.equal(null);
  });

  it('get their parameters unchanged, whatever they contain', async () => {
    const value = `a "b" 'c' $(touch ${folder}/injected) \`x\`; é\n2`;
    const { stdout } = await run('printf %s "$PARAM_name"', { parameters: { name: value, other: '' } });
    expect(stdout).to.equal(value);
    const inPython = 'import os\nprint(os.environ["PARAM_name"], end="")';
    expect((await run(inPython, { language: 'python', parameters: { name: value } })).stdout).to.equal(value);
    expect(existsSync(path.join(folder, 'injected'))).to.equal(false);
  });

  it('are stored if only the agent can read, run in an empty folder without input, and leave no files', async () => {
    const { stdout } = await run(
      'stat -c "%a" "$0" "$(dirname "$0")" .; pwd; ls -A; wc -c < /dev/stdin; mkdir -p x/y; echo 1 > x/y/z',
    );
    const [file, its, work, where, input] = stdout.trim().split('\n');
    expect([file, its, work, input]).to.deep.equal(['600', '700', '700', '0']);
    expect(where).to.contain(path.join(folder, 'scripts'));
    await resultOf(await begin('exit 1'));
    await resultOf(await begin('sleep 30', { timeoutSeconds: 1 }));
    expect(await readdir(path.join(folder, 'scripts'))).to.deep.equal([]);
    expect(warnings).to.deep.equal([]);
  });

  it('stream their output while they run', async () => {
    const seen = path.join(folder, 'seen');
    const id = await begin(
      'for i in 1 2 3; do echo $i; sleep 0.4; done; until [ -e "$PARAM_seen" ]; do sleep 0.1; done',
      { parameters: { seen } },
    );
    await eventually(rowsOf, (rows) => rows.length > 0);
    expect(hub.results).to.have.length(0);
    await writeFile(seen, '');
    await resultOf(id);
    const text = rowsOf()
      .map((row) => COMMANDS['script.run'].row.parse(row).text)
      .join('');
    expect(text).to.equal('1\n2\n3\n');
    expect(hub.rows.length).to.be.within(2, 4);
  });

  it('may print anything: invalid text is replaced', async () => {
    const { stdout } = await run(String.raw`printf 'a\0b\xff\xc3(\xed\xa0\x80|\xf0\x9f\x98\x80'`);
    expect(stdout).to.match(/^a\uFFFDb\uFFFD+\(\uFFFD+\|😀$/);
    await resultOf(await begin(`python3 -c 'import sys; sys.stdout.buffer.write(bytes([0])*50)'`));
    for (const { text } of rowsOf()) expect(text).not.to.contain('\0');
  });

  it('keep characters intact that arrive in pieces', async () => {
    const python = [
      'import sys, time',
      'for byte in "é😀".encode() * 3:',
      '    sys.stdout.buffer.write(bytes([byte])); sys.stdout.buffer.flush(); time.sleep(0.02)',
    ].join('\n');
    expect((await run(python, { language: 'python' })).stdout).to.equal('é😀'.repeat(3));
    expect(
      rowsOf()
        .map(({ text }) => text)
        .join(''),
    ).to.equal('é😀'.repeat(3));
  });

  it('keep the end of output that is too long, and mark it as truncated', async () => {
    const { stdout, stderr, truncated } = await run('seq 1 60000; echo end; echo small >&2');
    expect(stdout).to.have.length(SCRIPT_OUTPUT_MAX);
    expect(stdout.endsWith('59999\n60000\nend\n')).to.equal(true);
    expect([stderr, truncated]).to.deep.equal(['small\n', true]);
    const pairs = await run(`python3 -c 'print("😀" * 70000 + "x", end="")'`);
    expect(pairs.stdout.length).to.be.within(SCRIPT_OUTPUT_MAX - 1, SCRIPT_OUTPUT_MAX);
    expect(pairs.stdout).to.match(/^(😀)+x$/u);
  });

  it('fit into one message even if each character takes six bytes', async () => {
    const id = await begin(
      `python3 -c 'import sys; s = chr(1) * 150000; print(s); print(s, file=sys.stderr)'`,
    );
    const result = await resultOf(id);
    expect(result.status).to.equal('succeeded');
    const { stdout, stderr, truncated } = result.output as Output;
    expect(Math.min(stdout.length, stderr.length)).to.be.greaterThan(60_000);
    expect(truncated).to.equal(true);
    expect(Buffer.byteLength(JSON.stringify(result))).to.be.below(AGENT_MESSAGE_MAX_BYTES);
    expect(hub.sockets).to.have.length(1);
  });

  it('may flood both streams: memory stays bounded, frames are few, and the end is kept', async () => {
    const content =
      'head -c 50000000 /dev/zero | tr "\\0" y >&2 & yes 0123456789 | head -c 50000000; wait; echo end';
    const before = process.memoryUsage().rss;
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss);
    }, 10);
    const startedAt = Date.now();
    const { stdout, stderr, truncated } = await run(content);
    clearInterval(watch);
    expect(stdout.endsWith('end\n')).to.equal(true);
    expect([stdout.length, stderr, truncated]).to.deep.equal([
      SCRIPT_OUTPUT_MAX,
      'y'.repeat(SCRIPT_OUTPUT_MAX),
      true,
    ]);
    expect(most - before, 'bytes more in use').to.be.below(60_000_000);
    for (const frame of hub.rows) expect(JSON.stringify(frame).length).to.be.below(150_000);
    expect(hub.rows.length).to.be.below(4 + (Date.now() - startedAt) / 200);
    expect(rowsOf().some(({ text }) => text.includes('characters are not shown'))).to.equal(true);
  });

  for (const [what, content] of [
    [
      'that ends when it is asked to',
      'sleep 100 & echo $! > "$PARAM_pids"; echo $$ >> "$PARAM_pids"; echo so far; wait',
    ],
    [
      'that is deaf, and so are its children',
      `trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo $! > "$PARAM_pids"; echo $$ >> "$PARAM_pids"; echo so far; while :; do sleep 0.1; done`,
    ],
    [
      'whose children alone are deaf',
      `(trap '' TERM; while :; do sleep 0.1; done) & echo $! > "$PARAM_pids"; echo $$ >> "$PARAM_pids"; echo so far; wait`,
    ],
  ] as const) {
    it(`are stopped with all their processes when their time is over: one ${what}`, async () => {
      const pids = path.join(folder, 'pids');
      const id = await begin(content, { timeoutSeconds: 60, parameters: { pids } });
      await eventually(rowsOf, (rows) => rows.some(({ text }) => text.includes('so far')));
      await testClock.advance(50_000);
      expect(hub.results, 'not before').to.deep.equal([]);
      await testClock.advance(10_000);
      const result = await resultInTime(id);
      expect([result.status, result.error!.code]).to.deep.equal(['failed', 'TIMED_OUT']);
      expect((result.output as Output).stdout).to.equal('so far\n');
      const alive = (await written(pids)).trim().split('\n').map(Number);
      expect(alive).to.have.length(2);
      await eventually(
        () => alive.filter(isAlive),
        (list) => list.length === 0,
      );
    });

    it(`are stopped at once when they are cancelled: one ${what}`, async () => {
      const pids = path.join(folder, 'pids');
      const id = await begin(content, { parameters: { pids } });
      const alive = (
        await eventually(
          () => written(pids),
          (text) => text.trim().split('\n').length === 2,
        )
      )
        .trim()
        .split('\n')
        .map(Number);
      await eventually(rowsOf, (rows) => rows.some(({ text }) => text.includes('so far')));
      const askedAt = Date.now();
      await hub.cancel(id);
      const result = await resultOf(id);
      expect(Date.now() - askedAt).to.be.below(SOON_MS);
      expect([result.status, (result.output as Output).stdout]).to.deep.equal(['cancelled', 'so far\n']);
      await eventually(
        () => alive.filter(isAlive),
        (list) => list.length === 0,
      );
    });
  }

  it('end although they leave processes running that hold their output open', async () => {
    const startedAt = Date.now();
    const from = testClock.monotonic();
    const result = await resultInTime(await begin('sleep 20 & echo started'));
    const { stdout, exitCode } = result.output as Output;
    expect([result.status, stdout, exitCode]).to.deep.equal(['succeeded', 'started\n', 0]);
    expect(testClock.monotonic() - from, 'what comes late is still read').to.be.at.least(900);
    expect(Date.now() - startedAt, 'long before they end').to.be.below(SOON_MS);
  });

  it('end with the agent', async () => {
    const pids = path.join(folder, 'pids');
    await begin('sleep 100 & echo $! > "$PARAM_pids"; wait', { parameters: { pids } });
    const pid = Number(await written(pids));
    expect(isAlive(pid)).to.equal(true);
    await agent.stop();
    // The system takes a moment to end what was killed.
    await eventually(
      () => isAlive(pid),
      (is) => !is,
    );
    await start(await findInterpreters());
    await eventually(
      () => hub.results,
      (list) => list.length === 1,
    );
    expect(hub.results[0]!.error!.code).to.equal('INTERRUPTED');
  });

  it('are refused in a language that this machine does not support', async () => {
    await agent.stop();
    const { bash } = await findInterpreters();
    await start(bash === undefined ? {} : { bash });
    expect(await run('echo still')).to.include({ stdout: 'still\n' });
    const { status, error } = await resultOf(await begin('1', { language: 'powershell' }));
    expect([status, error!.code]).to.deep.equal(['failed', 'CAPABILITY_MISSING']);
    expect(error!.message).to.contain('powershell');
  });

  it('are not offered without an interpreter', async () => {
    const scripts = new ScriptFolder(folder, () => {});
    expect(Object.keys(scriptHandlers(await findInterpreters(folder), scripts))).to.deep.equal([]);
  });

  it('fail with a message when their interpreter was removed', async () => {
    await agent.stop();
    const { bash } = await findInterpreters();
    await start({ bash: { ...bash!, command: '/no/such/bash' } });
    const { status, error } = await resultOf(await begin('true'));
    expect([status, error!.code]).to.deep.equal(['failed', 'FAILED']);
    expect(error!.message).to.contain('could not be started');
  });

  it('use the first executable of their language on the search path', async () => {
    const bin = path.join(folder, 'bin');
    await mkdir(bin);
    await writeFile(path.join(bin, 'bash'), 'not executable', { mode: 0o600 });
    await symlink('/bin/sh', path.join(bin, 'python'));
    await writeFile(path.join(bin, 'pwsh'), '#!/bin/sh\n');
    await chmod(path.join(bin, 'pwsh'), 0o755);
    const found = await findInterpreters(`relative:${folder}:${bin}:/no/such`);
    const commands = Object.fromEntries(
      Object.entries(found).map(([language, { command }]) => [language as ScriptLanguage, command]),
    );
    expect(commands).to.deep.equal({ python: path.join(bin, 'python'), powershell: path.join(bin, 'pwsh') });
  });

  it('that a killed agent has left behind are removed at the next start', async () => {
    const left = path.join(folder, 'scripts', 'run-left', 'work');
    await mkdir(left, { recursive: true });
    await new ScriptFolder(folder, () => {}).clear();
    expect(await readdir(folder)).not.to.include('scripts');
  });
});
