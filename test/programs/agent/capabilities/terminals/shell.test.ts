import { expect } from 'chai';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Terminals } from '../../../../../src/agent/capabilities/terminals/terminals.ts';
import {
  findTerminalProcess,
  type StartTerminalProcess,
} from '../../../../../src/agent/capabilities/terminals/terminal-process.ts';
import type { TerminalContext } from '../../../../../src/agent/work/live-runner.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import {
  type CommandOutput,
  type CommandRow,
  TERMINAL_KEPT,
  TERMINAL_WINDOW,
} from '../../../../../src/protocol/index.ts';
import { until } from '../../../../support/agent/collect.ts';

type Row = CommandRow<'terminal.open'>;

/** The terminals of an agent on this machine, with a real shell. */
describe('a terminal of this machine', function () {
  this.timeout(30_000);
  let folder: string;
  let terminals: Terminals;
  const notices: string[] = [];
  let start: StartTerminalProcess;
  let views: View[] = [];

  before(async () => {
    start = await findTerminalProcess();
  });
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-terminal-'));
    terminals = make(start);
    views = [];
  });
  afterEach(async () => {
    const ends = views.map(({ ended }) => ended);
    await terminals.close();
    for (const view of views) view.leave.abort();
    await Promise.all(ends);
    await rm(folder, { recursive: true, force: true });
  });

  const make = (startProcess: StartTerminalProcess) =>
    new Terminals({
      start: startProcess,
      dataDir: folder,
      notify(message) {
        notices.push(message);
        return Promise.resolve('nobody');
      },
    });

  interface View {
    id: string;
    leave: AbortController;
    rows: Row[];
    text: () => string;
    taken: number;
    type: (input: string) => void;
    ended: Promise<CommandOutput<'terminal.open'> | Error>;
  }

  /** Opens a terminal as the hub does, and confirms what it gets unless `isSlow`. */
  function view(terminalId: string, { isNew = true, after = 0, isSlow = false } = {}): View {
    const leave = new AbortController();
    const rows: Row[] = [];
    const id = newId();
    const handle = terminals.handlers['terminal.open'];
    if (handle === undefined) throw new Error('no terminals');
    const context: TerminalContext = {
      id,
      signal: leave.signal,
      timeUp: new AbortController().signal,
      row: async () => {},
      async sendNow(row) {
        rows.push(row);
        if (row.kind === 'output') one.taken = row.offset + row.data.length;
        if (!isSlow) setImmediate(() => terminals.control({ id, taken: one.taken }));
      },
    };
    const one: View = {
      id,
      leave,
      rows,
      taken: after,
      text: () => rows.map((row) => (row.kind === 'output' ? row.data : '')).join(''),
      type: (input) => terminals.control({ id, input }),
      ended: handle({ terminalId, cols: 90, rows: 31, isNew, after, viewer: 'Ada' }, context).catch(
        (error: Error) => error,
      ),
    };
    views.push(one);
    return one;
  }

  /** The hub sends nothing to a terminal that the device does not show yet. */
  async function attached(...options: Parameters<typeof view>): Promise<View> {
    const one = view(...options);
    await until(() => one.rows.length > 0, 'the first row', 15_000);
    return one;
  }

  const shows = (one: View, text: string | RegExp) =>
    until(
      () => (typeof text === 'string' ? one.text().includes(text) : text.test(one.text())),
      String(text),
      15_000,
    );

  it('runs a shell, whose output and exit code arrive', async () => {
    const one = await attached(newId());
    expect(one.rows[0]).to.include({ kind: 'attached', mode: 'pty', offset: 0, notice: 'nobody' });
    one.type('stty size; echo "sum $((40+2))"\r');
    await shows(one, 'sum 42');
    expect(one.text()).to.include('31 90');
    one.type('exit 3\r');
    expect(await one.ended).to.deep.equal({ reason: 'exited', exitCode: 3 });
    expect(notices).to.include('Ada has opened a terminal on this machine.');
    expect(notices).to.include('The terminal of Ada on this machine has ended.');
  });

  it('has a new size when its viewer has one, and an interrupt ends a program', async () => {
    const one = await attached(newId());
    one.type('sleep 100; echo over $?\r');
    await shows(one, 'sleep');
    one.type('\u0003');
    terminals.control({ id: one.id, size: { cols: 123, rows: 45 } });
    await until(
      async () => {
        one.type('stty size\r');
        await new Promise((resolve) => setTimeout(resolve, 100));
        return one.text().includes('45 123');
      },
      'the size',
      15_000,
    );
  });

  it('confirms input that has no output, and does not show what is typed without echo', async () => {
    const one = await attached(newId());
    // The prompt appears when the echo is off.
    const command = 'read -rsp "read""y" secret; echo "read ${#secret}"\r';
    one.type(command);
    await shows(one, 'ready');
    const before = one.rows.length;
    one.type('hunter2\r');
    await shows(one, 'read 7');
    expect(one.text()).not.to.include('hunter2');
    const last = one.rows.slice(before).findLast((row) => row.kind === 'output');
    expect(last?.kind === 'output' && last.received).to.equal(command.length + 'hunter2\r'.length);
  });

  it('stops a flood at the window, and goes on as its viewer takes it', async () => {
    const one = await attached(newId(), { isSlow: true });
    one.type('yes 0123456789012345678901234567890123456789\r');
    await until(() => one.taken >= TERMINAL_WINDOW, 'a full window', 15_000);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(one.taken).to.equal(TERMINAL_WINDOW);
    terminals.control({ id: one.id, taken: 100_000 });
    await until(() => one.taken >= TERMINAL_WINDOW + 100_000, 'the next part', 15_000);
    expect(one.taken).to.equal(TERMINAL_WINDOW + 100_000);
    // All of it, and in order.
    expect(one.text()).to.have.length(TERMINAL_WINDOW + 100_000);
    terminals.control({ id: one.id, taken: one.taken, input: '\u0003' });
    terminals.control({ id: one.id, end: true });
  });

  it('goes on without a viewer, and shows one that comes back what it has missed', async () => {
    const terminalId = newId();
    const one = await attached(terminalId);
    one.type('echo first\r');
    await shows(one, /first\r\n[\s\S]*first\r\n/);
    one.type('sleep 0.3; echo sec""ond\r');
    await shows(one, 'sec""ond');
    one.leave.abort();
    expect(await one.ended).to.deep.equal({ reason: 'unattended', exitCode: null });
    await new Promise((resolve) => setTimeout(resolve, 600));
    const two = await attached(terminalId, { isNew: false, after: one.taken });
    await shows(two, 'second\r\n');
    expect(two.rows[0]).to.include({ kind: 'attached', offset: one.taken });
    // The viewer that has left cannot type any more.
    one.type('echo ghost\r');
    two.type('echo alive\r');
    await shows(two, /alive\r\n[\s\S]*alive\r\n/);
    expect(two.text()).not.to.include('ghost');
  });

  it('keeps the last output only, when there is much of it without a viewer', async () => {
    const terminalId = newId();
    const one = await attached(terminalId);
    const begin = path.join(folder, 'begin');
    const end = path.join(folder, 'end');
    const flood = `head -c ${6 * TERMINAL_KEPT} /dev/zero | tr '\\0' x; echo; echo do""ne; touch ${end}`;
    one.type(`until [ -e ${begin} ]; do sleep 0.05; done; ${flood}\r`);
    await shows(one, 'do""ne');
    one.leave.abort();
    await one.ended;
    await writeFile(begin, '');
    await until(
      () =>
        readFile(end).then(
          () => true,
          () => false,
        ),
      'the end of the flood',
      15_000,
    );
    const two = await attached(terminalId, { isNew: false, after: 10 });
    await shows(two, 'done\r\n');
    const [first] = two.rows;
    expect(first?.kind === 'attached' && first.offset).to.be.greaterThan(TERMINAL_KEPT);
    expect(two.text().length).to.be.at.most(2 * TERMINAL_KEPT + 10_000);
  });

  it('is replaced as a view by the next one, and ended by its viewer', async () => {
    const terminalId = newId();
    const one = await attached(terminalId);
    await shows(one, /./);
    const two = await attached(terminalId, { isNew: false });
    expect(await one.ended).to.deep.equal({ reason: 'replaced', exitCode: null });
    terminals.control({ id: one.id, end: true });
    await new Promise((resolve) => setTimeout(resolve, 100));
    terminals.control({ id: two.id, end: true });
    expect(await two.ended).to.deep.equal({ reason: 'closed', exitCode: null });
    const three = await view(terminalId, { isNew: false }).ended;
    expect(three).to.be.instanceOf(Error).and.have.property('code', 'TERMINAL_NOT_FOUND');
  });

  it('refuses more terminals than a device may have', async () => {
    const four = Array.from({ length: 4 }, () => view(newId()));
    await Promise.all(four.map((one) => shows(one, /./)));
    const fifth = await view(newId()).ended;
    expect(fifth).to.be.instanceOf(Error).and.have.property('code', 'TOO_MANY_TERMINALS');
  });

  it('takes its programs along when it ends', async () => {
    const one = await attached(newId());
    const file = path.join(folder, 'pid');
    one.type(`sleep 306 & echo $! > ${file}; trap '' HUP; sleep 307\r`);
    await until(
      async () => (await readFile(file, 'utf8').catch(() => '')).trim() !== '',
      'the process',
      15_000,
    );
    await new Promise((resolve) => setTimeout(resolve, 300));
    terminals.control({ id: one.id, end: true });
    await one.ended;
    await until(
      async () => !/^sleep 307$/m.test((await promisify(execFile)('ps', ['-eo', 'args'])).stdout),
      'the end of its programs',
    );
  });

  it('is ended by the next agent if this one was killed', async () => {
    const one = await attached(newId());
    await shows(one, /./);
    const file = path.join(folder, 'terminals.json');
    await until(
      async () => (await readFile(file, 'utf8').catch(() => '')).includes('pid'),
      'the record',
      15_000,
    );
    const next = make(start);
    await next.clear();
    expect(await one.ended).to.include({ reason: 'exited' });
  });

  it('gets whole lines where the machine has no program for terminals', async () => {
    const programs = path.join(folder, 'bin');
    await promisify(execFile)('mkdir', [programs]);
    await writeFile(path.join(programs, 'stty'), '', { mode: 0o755 });
    terminals = make(await findTerminalProcess(programs));
    const one = await attached(newId());
    expect(one.rows[0]).to.include({ kind: 'attached', mode: 'lines' });
    one.type('echo wrongg\u007F\u007F; ec');
    one.type('ho "line $((1+1))"\r');
    await shows(one, 'line 2\r\n');
    one.type('exit 4\r');
    expect(await one.ended).to.deep.equal({ reason: 'exited', exitCode: 4 });
  });
});
