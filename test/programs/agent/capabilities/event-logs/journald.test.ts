import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect } from 'chai';
import {
  bootLog,
  queryArguments,
  unitLog,
  parseJournalLine,
  priorityRange,
} from '../../../../../src/agent/capabilities/event-logs/journal-format.ts';
import {
  hasJournal,
  journaldReader,
} from '../../../../../src/agent/capabilities/event-logs/journald-reader.ts';
import { LogEntry } from '../../../../../src/protocol/index.ts';
import {
  ask,
  askAllPages,
  codeOf,
  never,
  temporaryFolder,
  until,
} from '../../../../support/agent/collect.ts';

const RECORD = {
  __REALTIME_TIMESTAMP: '1795229242225483',
  _BOOT_ID: '8c4ef5d4fc7045959fac0919cec8b64f',
  PRIORITY: '4',
  SYSLOG_IDENTIFIER: 'sshd',
  SYSLOG_FACILITY: '10',
  _UID: '0',
  _HOSTNAME: 'vm',
  MESSAGE: 'Failed password',
};
const parse = (change: object) => parseJournalLine(JSON.stringify({ ...RECORD, ...change }));

describe('agent: journal records', () => {
  it('maps a record to an entry, with its millisecond and its sequence number as id', () => {
    const cursor = 's=78b0;i=2492c;b=bb;m=1be8;t=6613;x=ab0c';
    expect(parse({ __CURSOR: cursor })).to.deep.include({
      recordId: 1_795_229_242_225 * 2048 + (0x2492c % 2048),
      timeCreated: '2026-11-21T02:47:22.225Z',
      level: 'warning',
      source: 'sshd',
      eventId: 0,
      message: 'Failed password',
      category: 'authpriv',
      user: '0',
      computer: 'vm',
    });
    expect(parse({})?.raw).to.equal(JSON.stringify(RECORD, Object.keys(RECORD).sort()));
  });

  it('reads a message of bytes, one of several values, and one that was omitted', () => {
    expect(parse({ MESSAGE: [...Buffer.from('röd \u001b[0m')] })?.message).to.equal('röd \u001b[0m');
    expect(parse({ MESSAGE: ['first', 'second'] })?.message).to.equal('first\nsecond');
    expect(parse({ MESSAGE: [71, 114, 252, 223, 101] })?.message).to.equal('Grüße');
    expect(parse({ MESSAGE: null })?.message).to.equal('');
  });

  it('maps every priority', () => {
    const levels = [0, 1, 2, 3, 4, 5, 6, 7].map((priority) => parse({ PRIORITY: String(priority) })?.level);
    expect(levels).to.deep.equal([
      'critical',
      'critical',
      'critical',
      'error',
      'warning',
      'information',
      'information',
      'verbose',
    ]);
    expect(priorityRange(['error', 'critical'])).to.deep.equal({ from: 0, to: 3 });
  });

  it('uses the unit or the program as source when there is no identifier', () => {
    expect(parse({ SYSLOG_IDENTIFIER: undefined, _SYSTEMD_UNIT: 'nginx.service' })?.source).to.equal(
      'nginx.service',
    );
    expect(parse({ SYSLOG_IDENTIFIER: undefined, _COMM: 'nginx' })?.source).to.equal('nginx');
  });

  it('skips lines that are not records', () => {
    for (const line of ['', '-- No entries --', '{"MESSAGE":"cut', '[]', '{"MESSAGE":"no time"}']) {
      expect(parseJournalLine(line)).to.equal(undefined);
    }
  });

  it('limits time and priority, with each value inside its own argument', () => {
    const args = queryArguments(unitLog('--output=cat'), {
      level: ['error', 'critical'],
      startTime: '2026-01-01T02:00:00.500Z',
      endTime: '2026-01-01T03:00:00.500Z',
    });
    expect(args).to.include.members([
      '--unit=--output=cat',
      '--since=@1767229200',
      '--until=@1767236402',
      '--priority=0..3',
    ]);
    expect(
      bootLog(' -1 8c4ef5d4fc7045959fac0919cec8b64f Sat 2026-11-21 02:47:22 UTC—Sat')?.match,
    ).to.deep.equal(['--boot=8c4ef5d4fc7045959fac0919cec8b64f']);
    expect(bootLog('IDX BOOT ID')).to.equal(undefined);
  });
});

describe('agent: a real journal through journalctl', () => {
  let folder: string;
  let remove: () => Promise<void>;
  const options = () => ({ prefix: [`--directory=${folder}`] });

  before(async function () {
    ({ folder, remove } = await temporaryFolder());
    const packed = await readFile(new URL('./fixtures/journal.gz', import.meta.url));
    await writeFile(path.join(folder, 'system.journal'), gunzipSync(packed));
    try {
      execFileSync('journalctl', [`--directory=${folder}`, '--lines=1', '--quiet'], { stdio: 'pipe' });
    } catch {
      // Shown as pending: this machine has no journalctl, or one too old for the recorded file.
      this.skip();
    }
  });
  after(() => remove());

  it('distinguishes a journal with entries from one without', async () => {
    expect(await hasJournal(options())).to.equal(true);
    expect(await hasJournal({ prefix: [`--directory=${folder}/none`] })).to.equal(false);
    expect(await hasJournal({ command: '/no/such/journalctl' })).to.equal(false);
  });

  it('lists the fixed logs and the boots', async () => {
    const logs = await journaldReader(options()).list(never);
    expect(logs.map(({ name }) => name)).to.include.members(['System', 'Kernel', 'Auth', 'boot:0']);
    const system = logs.find(({ name }) => name === 'System');
    expect(system).to.include({ source: 'journald' });
    expect(system?.recordCount).to.be.greaterThan(60);
    expect(Date.parse(system?.lastWriteTime ?? '')).to.be.greaterThan(0);
    expect(logs.find(({ name }) => name === 'Auth')?.recordCount).to.equal(2);
  });

  it('returns the newest entries first, the same by pages as at once', async () => {
    const reader = journaldReader(options());
    const { rows, summary } = await ask(reader, { name: 'system' });
    expect(summary.truncated).to.equal(false);
    expect(summary.total).to.equal(rows.length);
    const ids = rows.map(({ recordId }) => recordId);
    expect(ids).to.deep.equal([...ids].sort((a, b) => b - a));
    expect(await askAllPages(reader, { name: 'System', limit: 7 })).to.deep.equal(rows);
    for (const row of rows) expect(LogEntry.safeParse(row).success).to.equal(true);
  });

  it('applies every condition', async () => {
    const reader = journaldReader(options());
    const all = (await ask(reader, { name: 'System' })).rows;
    const middle = all[30]?.timeCreated ?? '';
    const by = async (query: object) => (await ask(reader, { name: 'System', ...query })).rows;
    expect(await by({ level: ['error'] })).to.deep.equal(all.filter(({ level }) => level === 'error'));
    expect(await by({ level: ['critical', 'verbose'] })).to.deep.equal(
      all.filter(({ level }) => level === 'critical' || level === 'verbose'),
    );
    expect(await by({ source: 'cart' })).to.have.length(20);
    expect((await by({ text: 'REQUEST 5' })).length).to.equal(11);
    expect(await by({ startTime: middle })).to.deep.equal(
      all.filter(({ timeCreated }) => timeCreated >= middle),
    );
    expect(await by({ endTime: middle })).to.deep.equal(
      all.filter(({ timeCreated }) => timeCreated <= middle),
    );
    expect(await by({ eventId: 5 })).to.deep.equal([]);
  });

  it('returns long, binary and multi-line messages', async () => {
    const { rows } = await ask(journaldReader(options()), { name: 'System' });
    const of = (source: string) => rows.find((row) => row.source === source)?.message;
    expect(of('long')).to.have.length(6_005);
    expect(of('raw')).to.include('röd');
    expect(of('multi')).to.equal('first line\nsecond line');
  });

  it('finds a record by its id, and only an existing one', async () => {
    const reader = journaldReader(options());
    const { rows } = await ask(reader, { name: 'Auth' });
    const wanted = rows[1];
    const found = await reader.record('Auth', wanted?.recordId ?? 0, never);
    expect(found).to.include({
      message: 'Failed password for invalid user admin',
      recordId: wanted?.recordId,
    });
    expect(await codeOf(reader.record('Auth', (wanted?.recordId ?? 0) + 1, never))).to.equal(
      'RECORD_NOT_FOUND',
    );
    expect(await codeOf(reader.get('../../etc/passwd', never))).to.equal('LOG_NOT_FOUND');
    expect(await codeOf(reader.get('--output=cat', never))).to.equal('LOG_NOT_FOUND');
  });
});

describe('agent: journalctl as a child process', () => {
  /** A journalctl that notes its arguments and prints these lines. */
  async function standIn(folder: string, lines: readonly string[], more = ''): Promise<string> {
    const command = path.join(folder, 'journalctl');
    await writeFile(path.join(folder, 'lines'), lines.map((text) => `${text}\n`).join(''));
    await writeFile(command, `#!/bin/sh\necho "$*" >> ${folder}/calls\n${more}\ncat ${folder}/lines\n`);
    await chmod(command, 0o755);
    return command;
  }
  const record = (n: number, change: object = {}) =>
    JSON.stringify({
      ...RECORD,
      __CURSOR: `s=1;i=${(5000 + n).toString(16)};t=1`,
      MESSAGE: `message ${n}`,
      ...change,
    });

  it('opens each of the entries of one microsecond', async () => {
    const { folder, remove } = await temporaryFolder();
    try {
      // One journal has no sequence numbers: then the content tells entries apart.
      for (const cursor of [{}, { __CURSOR: 'c1' }]) {
        const command = await standIn(
          folder,
          [1, 2, 3].map((n) => record(n, cursor)),
        );
        const reader = journaldReader({ command });
        const { rows } = await ask(reader, { name: 'System' });
        expect(new Set(rows.map(({ recordId }) => recordId)).size).to.equal(3);
        for (const row of rows) {
          expect((await reader.record('System', row.recordId, never)).message).to.equal(row.message);
        }
      }
    } finally {
      await remove();
    }
  });

  it('shows an entry with a field of two megabytes, and the entries around it', async () => {
    const { folder, remove } = await temporaryFolder();
    try {
      const long = 'ä\\"\n'.repeat(400_000);
      const bytes = Array.from({ length: 500_000 }, () => 255);
      const command = await standIn(folder, [record(1), record(2, { MESSAGE: long, X: bytes }), record(3)]);
      const { rows, summary } = await ask(journaldReader({ command }), { name: 'System' });
      expect(rows.map(({ message }) => message.slice(0, 9))).to.deep.equal([
        'message 1',
        'ä\\"\nä\\"\nä',
        'message 3',
      ]);
      expect(summary.truncated).to.equal(false);
    } finally {
      await remove();
    }
  });

  it('leaves text, source and priority to journalctl', async () => {
    const { folder, remove } = await temporaryFolder();
    try {
      const fields =
        'case "$*" in *--field=SYSLOG_IDENTIFIER*) echo SSHD; echo sshd; exit;; *--field=*) exit;; esac';
      const command = await standIn(folder, [record(1)], fields);
      const query = { name: 'Kernel', text: 'Message', source: 'Sshd', level: ['warning' as const] };
      expect((await ask(journaldReader({ command }), query)).rows).to.have.length(1);
      const asked = (await readFile(path.join(folder, 'calls'), 'utf8')).trim().split('\n').at(-1);
      expect(asked).to.match(/--priority=4\.\.4 --grep=Message --case-sensitive=no /);
      expect(asked).to.match(
        / _TRANSPORT=kernel SYSLOG_IDENTIFIER=SSHD \+ _TRANSPORT=kernel SYSLOG_IDENTIFIER=sshd$/,
      );
    } finally {
      await remove();
    }
  });

  it('compares the messages itself if journalctl was built without patterns', async () => {
    const { folder, remove } = await temporaryFolder();
    try {
      const refuses =
        'case "$*" in *--grep=*) echo "Compiled without pattern matching support" >&2; exit 1;; esac';
      const command = await standIn(folder, [record(1), record(2)], refuses);
      const { rows } = await ask(journaldReader({ command }), { name: 'System', text: 'message 2' });
      expect(rows.map(({ message }) => message)).to.deep.equal(['message 2']);
      // As grep does, it ends with 1 where nothing fits.
      const finds = await standIn(folder, [], 'case "$*" in *--grep=*) exit 1;; esac');
      expect(
        (await ask(journaldReader({ command: finds }), { name: 'System', text: 'x' })).summary,
      ).to.deep.equal({
        scanned: 0,
        truncated: false,
        total: 0,
      });
    } finally {
      await remove();
    }
  });

  it('is killed with its whole group when a tail is stopped', async function () {
    if (process.platform !== 'linux') this.skip();
    const { folder, remove } = await temporaryFolder();
    try {
      const pids = path.join(folder, 'pids');
      const command = path.join(folder, 'journalctl');
      // It ignores SIGTERM and has a child of its own, as badly as a child can behave.
      const entry = JSON.stringify(RECORD);
      await writeFile(
        command,
        `#!/bin/sh\ncase "$*" in *--follow*) ;; *) exit 0;; esac\ntrap '' TERM\nsleep 60 &\necho "$$ $!" > ${pids}\necho '${entry}'\nwait\nsleep 60\n`,
      );
      await chmod(command, 0o755);
      const stop = new AbortController();
      const rows = journaldReader({ command }).tail({ name: 'System' }, stop.signal);
      expect((await rows.next()).done).to.equal(false);
      const stoppedAt = Date.now();
      stop.abort();
      expect((await rows.next()).done).to.equal(true);
      expect(Date.now() - stoppedAt).to.be.below(20_000);
      const both = (await readFile(pids, 'utf8')).trim().split(' ').map(Number);
      await until(() => both.every((pid) => !lives(pid)), 'both processes gone', 20_000);
    } finally {
      await remove();
    }
  });
});

/** A process that has ended may stay listed until its parent, here often a lazy init, takes note. */
function lives(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
  } catch {
    return false;
  }
}
