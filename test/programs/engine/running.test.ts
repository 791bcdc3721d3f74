import { expect } from 'chai';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { existsSync, readlinkSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import {
  backup,
  backupStream,
  checkRepository,
  type EngineError,
  EngineProbe,
  listLocks,
  listSnapshots,
  openEngine,
  probeEngine,
  type Repository,
  unlockOwn,
} from '../../../src/engine/index.ts';
import { runDocument, runLines } from '../../../src/engine/process/start-engine.ts';
import { eventually } from '../../support/eventually.ts';
import { useTestClock } from '../../support/use-test-clock.ts';
import {
  failureOf,
  openWorkbench,
  PASSWORD,
  scriptedEngine,
  stockRestic,
  type Workbench,
  workbenchWith,
  writeFiles,
} from './engine-support.ts';

const LOCAL: Repository = { destination: { type: 'local', path: '/nowhere' }, password: PASSWORD };

describe('a scripted program in place of restic', function () {
  this.timeout(120_000);

  async function withScript<T>(
    script: string,
    use: (bench: Workbench) => Promise<T>,
    killAfterMs = 300,
  ): Promise<T> {
    const { program, remove } = await scriptedEngine(script);
    const bench = await workbenchWith(program, { killAfterMs });
    try {
      return await use(bench);
    } finally {
      await bench.remove();
      await remove();
    }
  }
  const call = { repository: LOCAL, args: () => ['anything'] };

  it('does not fill the memory by what it prints, on either output', async () => {
    await withScript('head -c 300000000 /dev/zero | tee /dev/stderr; exit 1', async ({ engine }) => {
      const before = process.memoryUsage().rss;
      let longest = 0;
      const end = await runLines(engine, call, (line) => {
        longest = Math.max(longest, line.length);
      });
      expect(longest).to.equal(1024 * 1024);
      expect(end.failure().detail?.length).to.be.at.most(2000);
      expect(process.memoryUsage().rss - before).to.be.lessThan(200 * 1024 * 1024);
    });
  });

  it('is stopped if its answer is larger than it may be', async () => {
    await withScript('trap "" PIPE; yes', async ({ engine }) => {
      const failure = await failureOf(runDocument(engine, call, 100_000));
      expect(failure.code).to.equal('ENGINE_FAILED');
    });
  });

  it('is interrupted first and killed later, with everything it has started', async () => {
    await withScript('trap "" INT; sleep 300 & echo $!; wait; sleep 300', async ({ engine }) => {
      const cancel = new AbortController();
      const pids: number[] = [];
      const running = runLines(
        engine,
        { ...call, signal: cancel.signal, onStart: (pid) => pids.push(pid) },
        (line) => {
          pids.push(Number(line));
          cancel.abort();
        },
      );
      const end = await running;
      expect(end.failure().code).to.equal('CANCELLED');
      expect(pids).to.have.length(2);
      await eventually(
        () => Promise.resolve(pids.filter(isRunning)),
        (alive) => alive.length === 0,
      );
    });
  });

  it('is not started if the operation was cancelled before', async () => {
    await withScript('echo started > "$RESTIC_CACHE_DIR/started"', async ({ engine, at }) => {
      const work = runDocument(engine, { ...call, signal: AbortSignal.abort() });
      expect((await failureOf(work)).code).to.equal('CANCELLED');
      expect(existsSync(at('engine/cache/started'))).to.equal(false);
    });
  });

  it('gets a fresh environment, and nothing secret on its command line', async () => {
    process.env['RESTIC_PASSWORD'] = process.env['HTTP_PROXY'] = 'http://elsewhere';
    try {
      await withScript('env; echo "$@"; cat /proc/self/fd/4', async ({ engine }) => {
        const output = await runDocument(engine, call);
        const names = output.split('\n').flatMap((line) => /^([A-Z_]+)=/.exec(line)?.[1] ?? []);
        expect(names.filter((name) => !['PWD', 'SHLVL', '_', 'OLDPWD'].includes(name)).sort()).to.deep.equal([
          'LC_ALL',
          'PATH',
          'RESTIC_CACHE_DIR',
          'RESTIC_PROGRESS_FPS',
        ]);
        expect(output.split(PASSWORD)).to.have.length(2);
        expect(output.endsWith(PASSWORD)).to.equal(true);
      });
    } finally {
      delete process.env['RESTIC_PASSWORD'];
      delete process.env['HTTP_PROXY'];
    }
  });

  it('reads its secrets from files if the system has no descriptors, which are gone afterwards', async () => {
    const { program, remove } = await scriptedEngine(
      'while [ $# -gt 0 ]; do [ "$1" = --password-file ] && cat "$2"; shift; done; ls -l "$RESTIC_CACHE_DIR/../secrets"',
    );
    const bench = await workbenchWith(program, { secretPlace: 'files' });
    const output = await runDocument(bench.engine, call);
    expect(output.startsWith(PASSWORD)).to.equal(true);
    expect(output.match(/^-rw-------/gm)).to.have.length(2);
    const secrets = bench.at('engine/secrets');
    expect(await readdir(secrets)).to.deep.equal([]);

    await writeFile(path.join(secrets, `secret-999999999-${'a'.repeat(32)}`), PASSWORD);
    await writeFile(path.join(secrets, `secret-${process.pid}-${'b'.repeat(32)}`), PASSWORD);
    await openEngine(program, { folder: bench.at('engine'), host: {}, secretPlace: 'files' });
    expect(await readdir(secrets)).to.deep.equal([`secret-${process.pid}-${'b'.repeat(32)}`]);
    await bench.remove();
    await remove();
  });

  it('leaves no descriptor open', async () => {
    await withScript('exit 0', async ({ engine }) => {
      await runDocument(engine, call);
      const descriptors = async () => (await readdir('/proc/self/fd')).length;
      const before = await descriptors();
      await Promise.all(Array.from({ length: 5 }, () => runDocument(engine, call)));
      // This process opens and closes others of its own meanwhile.
      await eventually(descriptors, (count) => count <= before);
    });
  });

  it('is missing if it vanishes after it was found', async () => {
    const { program, remove } = await scriptedEngine('exit 0');
    const bench = await workbenchWith(program);
    await remove();
    expect((await failureOf(runDocument(bench.engine, call))).code).to.equal('ENGINE_MISSING');
    const niced = {
      ...bench.engine,
      program: { ...program, command: ['/usr/bin/nice', program.path] as const },
    };
    expect((await failureOf(runDocument(niced, call))).code).to.equal('ENGINE_MISSING');
    await bench.remove();
  });

  it('is interrupted if it would try again although the destination is full', async () => {
    const retrying = [
      'trap "exit 130" INT',
      'echo "Save(<data/ab>) returned error, retrying after 500ms: unexpected EOF" >&2',
      'echo "Save(<data/ab>) returned error, retrying after 500ms: unexpected HTTP response (507): 507" >&2',
      'for i in $(seq 300); do sleep 0.1; done',
    ].join('\n');
    await withScript(
      retrying,
      async ({ engine }) => {
        const failure = await failureOf(runDocument(engine, call));
        expect([failure.code, failure.message]).to.deep.equal([
          'DESTINATION_FULL',
          'The destination of the backup has no space left. Make room there, or have its quota raised.',
        ]);
      },
      30_000,
    );
  });

  describe('that asks a destination which takes nothing', () => {
    const testClock = useTestClock();
    /** The outcome of work, for which time passes several times as quickly as for the script. */
    const inTime = async <T>(work: Promise<T>): Promise<T> => {
      let isOver = false;
      const over = work.finally(() => (isOver = true));
      await eventually(
        async () => {
          await testClock.advance(100);
          return isOver;
        },
        (is) => is,
      );
      return over;
    };
    const RETRY = 'echo "Save(<data/ab>) returned error, retrying after 5s: connection refused" >&2';
    const status = (bytes: string) =>
      `echo '{"message_type":"status","total_bytes":1000,"bytes_done":'${bytes}'}'`;
    const input = { paths: ['/source'], host: 'machine' };
    const script = (bytes: string) =>
      [
        'trap "exit 130" INT',
        `for i in $(seq 40); do ${status(bytes)}; ${RETRY}; sleep 0.02; done`,
        'exit 1',
      ].join('\n');

    it('is ended when it has asked for too long', async () => {
      await withScript(script('7'), async ({ engine }) => {
        const impatient = { ...engine, giveUpAfterMs: 1000 };
        const failure = await inTime(failureOf(backup(impatient, LOCAL, input)));
        expect(failure.code).to.equal('DESTINATION_UNREACHABLE');
        expect(failure.detail).to.match(/connection refused/);
      });
    });

    it('goes on while the backup gets further, and if the time is not over', async () => {
      const impatient = { giveUpAfterMs: 1000 };
      for (const [bytes, settings] of [
        ['$i', impatient],
        ['7', {}],
      ] as const) {
        await withScript(script(bytes), async ({ engine }) => {
          const failure = await inTime(failureOf(backup({ ...engine, ...settings }, LOCAL, input)));
          expect([failure.code, failure.detail]).to.deep.equal(['ENGINE_FAILED', 'restic ended with 1.']);
        });
      }
    });
  });

  it('is too old, or no restic at all', async () => {
    const probe = async (script: string) => {
      const { program, remove } = await scriptedEngine(script);
      const failure = await failureOf(
        probeEngine({ program: program.path, searchPath: process.env['PATH'] }),
      );
      await remove();
      return failure.code;
    };
    expect(await probe('echo restic 0.13.1 compiled with go')).to.equal('ENGINE_TOO_OLD');
    expect(await probe('echo hello')).to.equal('ENGINE_MISSING');
    expect(await probe('yes | head -c 1000000')).to.equal('ENGINE_MISSING');
    expect(await probe('exit 1')).to.equal('ENGINE_MISSING');
  });

  it('is asked for its version once, and again if it was replaced', async () => {
    const { program, remove } = await scriptedEngine('echo x >> "$0.runs"; echo restic 0.14.0');
    const runs = async () => (await readFile(`${program.path}.runs`, 'utf8')).length / 2;
    const probe = new EngineProbe();
    const find = async () => (await probe.find({ program: program.path })).version.minor;
    expect([await find(), await find(), await runs()]).to.deep.equal([14, 14, 1]);
    const script = await readFile(program.path, 'utf8');
    await writeFile(program.path, script.replace('0.14.0', '0.15.0'));
    expect([await find(), await find(), await runs()]).to.deep.equal([15, 15, 2]);
    await writeFile(program.path, '#!/bin/bash\nexit 1\n');
    expect((await failureOf(probe.find({ program: program.path }))).code).to.equal('ENGINE_MISSING');
    await remove();
    expect((await failureOf(probe.find({ program: program.path }))).code).to.equal('ENGINE_MISSING');
  });

  it('is not run again for the full id of a snapshot that is known without it', async () => {
    const summary = JSON.stringify({ message_type: 'summary', snapshot_id: 'abcdef12' });
    const script = `for word; do if [ "$word" = snapshots ]; then exit 1; fi; done; echo '${summary}'`;
    await withScript(`echo x >> "$0.runs"; ${script}`, async ({ engine }) => {
      const runs = async () => (await readFile(`${engine.program.path}.runs`, 'utf8')).length / 2;
      const input = { paths: ['/'], host: 'device-1' };
      const known = await backup(engine, LOCAL, input, { isSnapshotKnown: true });
      expect([known.snapshotId, known.shortId, await runs()]).to.deep.equal([null, 'abcdef12', 1]);
      await backup(engine, LOCAL, input);
      expect(await runs()).to.equal(3);
    });
  });

  it('is not looked for in the current folder', async () => {
    const { program, remove } = await scriptedEngine('echo restic 0.18.0');
    const folder = path.relative(process.cwd(), path.dirname(program.path));
    for (const searchPath of ['', '.', folder, `:${folder}`]) {
      expect((await failureOf(probeEngine({ searchPath }))).code, searchPath).to.equal('ENGINE_MISSING');
    }
    expect((await failureOf(probeEngine({ program: path.join(folder, 'restic') }))).code).to.equal(
      'ENGINE_MISSING',
    );
    expect((await probeEngine({ program: program.path })).capabilities.restoreJson).to.equal(true);
    await remove();
  });
});

describe('restic while it runs', function () {
  this.timeout(120_000);
  let bench: Workbench;
  let repository: Repository;

  before(async function () {
    bench = await openWorkbench(this);
    repository = await bench.repository();
  });
  after(async () => bench?.remove());

  const stdin = { fileName: 'image', host: 'device-1' };
  /** Content that does not end before `release` is called. */
  function endless() {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    async function* content() {
      yield randomBytes(100_000);
      await gate;
      yield randomBytes(100_000);
    }
    return { content: content(), release: () => release() };
  }

  it('shows no secret in its command line, its environment and its open files, and runs with lower priority', async () => {
    const source = endless();
    let pid = 0;
    const running = backupStream(bench.engine, repository, stdin, source, {
      onStart: (started) => (pid = started),
    });
    await eventually(
      () => listLocks(bench.engine, repository),
      (locks) => locks.length === 1,
    );
    const shown = await Promise.all(
      ['cmdline', 'environ'].map((name) => readFile(`/proc/${pid}/${name}`, 'utf8')),
    );
    expect(shown.join('\n')).to.include('--password-file').and.not.include(PASSWORD);
    for (const descriptor of ['3', '4']) {
      expect(readlinkSync(`/proc/${pid}/fd/${descriptor}`)).to.match(/ \(deleted\)$/);
    }
    // Ten lower than that of the tests, which may run with a lower one themselves.
    expect(os.getPriority(pid)).to.equal(Math.min(19, os.getPriority() + 10));
    expect((await readdir('/dev/shm')).filter((name) => name.startsWith('secret-'))).to.deep.equal([]);
    source.release();
    const made = await running;
    expect(made).to.include({ status: 'completed', bytesProcessed: 200_000 });
  });

  it('is interrupted by a cancelled operation, and leaves neither a lock nor a snapshot', async () => {
    const before = (await listSnapshots(bench.engine, repository)).length;
    const cancel = new AbortController();
    const source = endless();
    let isReading = () => {};
    const reads = new Promise<void>((resolve) => {
      isReading = resolve;
    });
    const options = { signal: cancel.signal, onProgress: () => isReading() };
    const running = failureOf(backupStream(bench.engine, repository, stdin, source, options));
    // In the first 200 ms of its lock, restic 0.14 does not know yet that it has one to remove.
    await reads;
    cancel.abort();
    source.release();
    expect((await running).code).to.equal('CANCELLED');
    expect(stockRestic(repository, 'list', 'locks')).to.equal('');
    expect(await listSnapshots(bench.engine, repository)).to.have.length(before);
  });

  it('makes no snapshot of a stream that its producer does not confirm', async () => {
    const before = (await listSnapshots(bench.engine, repository)).length;
    async function* broken() {
      yield randomBytes(1000);
      throw new Error('The disk has failed.');
    }
    const short = { content: [randomBytes(1000)], expectedBytes: 2000 };
    const unconfirmed = {
      content: [randomBytes(1000)],
      confirm: () => Promise.reject(new Error('Exit code 1.')),
    };
    const sources = [
      { content: broken() },
      ...[short, unconfirmed].map((each) => ({ ...each, content: asStream(each.content) })),
    ];
    for (const source of sources) {
      const failure = await failureOf(backupStream(bench.engine, repository, stdin, source));
      expect(failure.code).to.equal('SOURCE_UNREADABLE');
    }
    expect(await listSnapshots(bench.engine, repository)).to.have.length(before);
    // restic may have been interrupted before it knew its lock. The process is gone, so the lock can be removed.
    expect(await unlockOwn(bench.engine, repository)).to.deep.equal([]);
  });

  it('reports a lock, a wrong password, a missing repository and a server that does not answer', async () => {
    const code = (work: Promise<unknown>) => failureOf(work).then((error: EngineError) => error.code);
    const { engine } = bench;
    const source = endless();
    const running = backupStream(engine, repository, stdin, source);
    await eventually(
      () => listLocks(engine, repository),
      (locks) => locks.length === 1,
    );
    expect(await code(checkRepository(engine, repository))).to.equal('REPOSITORY_LOCKED');
    // The lock of a process that lives is not removed.
    expect(await unlockOwn(engine, repository)).to.have.length(1);
    source.release();
    await running;

    expect(await code(listSnapshots(engine, { ...repository, password: 'wrong' }))).to.equal('WRONG_KEY');
    expect(await code(listSnapshots(engine, LOCAL))).to.equal('REPOSITORY_MISSING');
    const rest = {
      destination: { type: 'rest', url: 'http://127.0.0.1:1/', password: 'hush-hush' },
      password: PASSWORD,
    } as const;
    const failure = await failureOf(listSnapshots(engine, rest));
    expect(failure.code).to.equal('DESTINATION_UNREACHABLE');
    expect(`${failure.message} ${failure.detail}`).not.to.match(/hush-hush|muster:/);
  });

  it('removes the lock of a killed process of its own, and none while another machine has one', async () => {
    const source = endless();
    let pid = 0;
    const running = failureOf(
      backupStream(bench.engine, repository, stdin, source, { onStart: (started) => (pid = started) }),
    );
    await eventually(
      () => listLocks(bench.engine, repository),
      (locks) => locks.length === 1,
    );
    process.kill(-pid, 'SIGKILL');
    source.release();
    expect((await running).code).to.equal('ENGINE_FAILED');
    expect(await unlockOwn(bench.engine, repository, { hostName: 'another-machine' })).to.have.length(1);
    expect(await unlockOwn(bench.engine, repository)).to.deep.equal([]);
    expect(stockRestic(repository, 'list', 'locks')).to.equal('');
  });

  it('lists what it cannot read, and keeps the rest', async () => {
    await writeFiles(bench.at('closed'), { open: 'open' });
    // Not even root can read this file.
    const paths = [bench.at('closed'), '/proc/self/clear_refs'];
    const made = await backup(bench.engine, repository, { paths, host: 'device-1' });
    expect(made).to.include({ status: 'partial', filesProcessed: 1 });
    expect(made.unreadable.paths.map((each) => each.path)).to.deep.equal(['/proc/self/clear_refs']);
  });
});

async function* asStream(parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array, void> {
  yield* parts;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
