import { expect } from 'chai';
import type { HealthCheck, InstallRequest, ToChild } from '../../../src/agent/os/supervision.ts';
import { WatchdogSettings } from '../../../src/watchdog/settings.ts';
import type { ChildEnd, ChildMessage } from '../../../src/watchdog/supervised-child.ts';
import { type RunParts, type StartedProgram, superviseOnce } from '../../../src/watchdog/supervised-run.ts';
import { useTestClock } from '../../support/use-test-clock.ts';

const SETTINGS = WatchdogSettings.parse({});
const REQUEST: InstallRequest = {
  type: 'install',
  component: 'agent',
  version: '1.2.0',
  sha256: 'ab',
  attemptId: '00000000-0000-4000-8000-000000000001',
  isPinned: false,
};
const EXITED: ChildEnd = {
  how: 'It ended with exit code 1.',
  exitCode: 1,
  isSilent: false,
  ranMs: 5000,
  output: ['last words'],
};

/** A program whose messages and end the test decides. */
class ScriptedProgram implements StartedProgram {
  readonly pid = 4711;
  readonly sent: ToChild[] = [];
  readonly ended: Promise<ChildEnd>;
  exit: (end?: ChildEnd) => void = () => {};
  stops = 0;
  /** Whether it goes on running although it was told to stop. */
  isStubborn = false;

  constructor() {
    this.ended = new Promise((resolve) => (this.exit = (end = EXITED) => resolve(end)));
  }

  send(message: ToChild): void {
    this.sent.push(message);
  }
  async stop(): Promise<ChildEnd> {
    this.stops += 1;
    if (!this.isStubborn) this.exit({ ...EXITED, exitCode: 0 });
    return this.ended;
  }
  kill(): void {
    throw new Error('Nothing here ends a program by force.');
  }
}

describe('the run of a supervised program', () => {
  const testClock = useTestClock({ isRunning: false });
  let program: ScriptedProgram;
  let message: (message: ChildMessage) => void;
  let stopping: AbortController;
  let heard: string[];

  beforeEach(() => {
    program = new ScriptedProgram();
    stopping = new AbortController();
    heard = [];
  });
  afterEach(() => expect(testClock.pending, 'timers left behind').to.equal(0));

  const run = (more: Partial<RunParts> = {}) =>
    superviseOnce({
      command: ['muster-agent'],
      start(onMessage) {
        message = onMessage;
        return program;
      },
      settings: SETTINGS,
      programs: '/programs',
      signal: stopping.signal,
      mayInstall: async () => undefined,
      on: {
        started: (pid) => heard.push(`started ${pid}`),
        hello: (version) => heard.push(`hello ${version}`),
        connection: ({ isConnected }) => heard.push(`connection ${isConnected}`),
        heartbeat: () => heard.push('heartbeat'),
      },
      ...more,
    });
  const trialOf = (healthy: () => Promise<void>, more = {}) => ({
    version: '1.1.0',
    expected: [],
    isServed: async () => true,
    healthy,
    stopsWhenHealthy: false,
    ...more,
  });
  const hello = (version = '1.1.0', checks?: HealthCheck[]) =>
    message({ type: 'hello', component: 'agent', version, ...(checks === undefined ? {} : { checks }) });
  const passTrial = () => {
    hello();
    message({ type: 'connection', isConnected: true, reachesServer: true });
    for (let beat = 0; beat < SETTINGS.heartbeatsInARow; beat += 1) message({ type: 'heartbeat' });
  };
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  const isOpen = async (running: Promise<unknown>) => {
    const open = Symbol('open');
    return (await Promise.race([running, turn().then(() => open)])) === open;
  };

  it('passes on what the program reports, and ends with it', async () => {
    const running = run();
    hello('1.0.0');
    message({ type: 'connection', isConnected: true, reachesServer: true });
    message({ type: 'heartbeat' });
    program.exit();
    expect(await running).to.deep.equal({ kind: 'ended', end: EXITED });
    expect(heard).to.deep.equal(['started 4711', 'hello 1.0.0', 'connection true', 'heartbeat']);
    expect(program.sent).to.have.length(1);
    expect(program.sent[0]).to.include({ type: 'welcome', programs: '/programs' });
    expect(program.sent[0]).not.to.have.property('beatEveryMs');
  });

  it('stops the program when the watchdog stops, even if that was before its start', async () => {
    const running = run();
    expect(await isOpen(running)).to.equal(true);
    stopping.abort();
    expect(await running).to.deep.equal({ kind: 'stopped' });
    program = new ScriptedProgram();
    expect(await run()).to.deep.equal({ kind: 'stopped' });
    expect(program.stops).to.equal(1);
  });

  describe('on trial', () => {
    it('does not end before the verdict is stored, although the program has exited', async () => {
      let stored = () => {};
      const running = run({ trial: trialOf(() => new Promise((resolve) => (stored = resolve))) });
      passTrial();
      program.exit();
      await program.ended;
      expect(await isOpen(running)).to.equal(true);
      stored();
      expect(await running).to.deep.equal({ kind: 'ended', end: EXITED });
    });

    it('goes on with the usual heartbeats once the verdict is stored', async () => {
      let decisions = 0;
      const running = run({
        trial: trialOf(async () => {
          decisions += 1;
        }),
      });
      passTrial();
      expect(program.sent).to.have.length(1);
      expect(program.sent[0]).to.include({ type: 'welcome', beatEveryMs: SETTINGS.beatEveryMs });
      await turn();
      expect(program.sent).to.have.length(2);
      expect(program.sent[1]).not.to.have.property('beatEveryMs');
      message({ type: 'heartbeat' });
      program.exit();
      expect(await running).to.include({ kind: 'ended' });
      expect([decisions, program.stops]).to.deep.equal([1, 0]);
    });

    it('stops a program that only had to prove itself', async () => {
      const running = run({ trial: trialOf(async () => {}, { stopsWhenHealthy: true }) });
      passTrial();
      expect(await running).to.deep.equal({ kind: 'healthy' });
      expect([program.stops, program.sent.length]).to.deep.equal([1, 1]);
    });

    it('stops the program whose verdict cannot be stored', async () => {
      const running = run({ trial: trialOf(() => Promise.reject(new Error('The disk is full.'))) });
      passTrial();
      const error = await running.catch((thrown: unknown) => thrown);
      expect(error).to.include({ message: 'The disk is full.' });
      expect(program.stops).to.equal(1);
    });

    it('says why the release has failed, with its last output', async () => {
      const running = run({ trial: trialOf(async () => {}) });
      hello('9.9.9');
      expect(await running).to.deep.equal({
        kind: 'trial_failed',
        code: 'WRONG_VERSION',
        message: 'The release 1.1.0 says that it is 9.9.9.',
        output: ['last words'],
      });
    });

    it('keeps the first reason for which it ends', async () => {
      program.isStubborn = true;
      const running = run({ trial: trialOf(async () => {}) });
      stopping.abort();
      hello('9.9.9');
      program.exit();
      expect(await running).to.deep.equal({ kind: 'stopped' });
      expect(program.stops).to.equal(1);
    });

    it('decides nothing about a program that has ended', async () => {
      let decisions = 0;
      const running = run({
        trial: trialOf(async () => {
          decisions += 1;
        }),
      });
      program.exit();
      await running;
      passTrial();
      await testClock.advance(2 * SETTINGS.firstHeartbeatMs);
      expect(decisions).to.equal(0);
    });
  });

  describe('that wants a release installed', () => {
    const answers = () => program.sent.filter(({ type }) => type === 'install_answer');
    const { attemptId } = REQUEST;

    it('agrees, and ends with what the program was able to do', async () => {
      const running = run();
      hello('1.0.0', ['live_query', 'event_log']);
      message({ type: 'connection', isConnected: true, reachesServer: true });
      message({ type: 'heartbeat' });
      message(REQUEST);
      await turn();
      expect(program.sent.at(-1)).to.deep.equal({ type: 'check' });
      message({ type: 'health', works: ['live_query'], faults: [] });
      expect(await running).to.deep.equal({
        kind: 'install',
        request: REQUEST,
        works: ['socket', 'live_query'],
      });
      expect(answers()).to.deep.equal([{ type: 'install_answer', attemptId }]);
      expect(program.stops).to.equal(1);
    });

    it('refuses with the reason, asks for no checks, and goes on', async () => {
      const refusal = { code: 'TRIAL_RUNNING', message: 'Try again later.' };
      const running = run({ mayInstall: async () => refusal });
      hello('1.0.0', ['live_query']);
      message(REQUEST);
      expect(await isOpen(running)).to.equal(true);
      expect(program.sent.slice(1)).to.deep.equal([{ type: 'install_answer', attemptId, ...refusal }]);
      program.exit();
      expect(await running).to.include({ kind: 'ended' });
    });

    it('answers if it cannot be decided, and goes on', async () => {
      const running = run({ mayInstall: () => Promise.reject(new Error('The file cannot be read.')) });
      message(REQUEST);
      expect(await isOpen(running)).to.equal(true);
      expect(answers()).to.deep.equal([
        { type: 'install_answer', attemptId, code: 'FAILED', message: 'Error: The file cannot be read.' },
      ]);
      program.exit();
      await running;
    });

    it('promises nothing if it was stopped while the checks ran', async () => {
      program.isStubborn = true;
      const running = run();
      hello('1.0.0', ['live_query']);
      message(REQUEST);
      await turn();
      stopping.abort();
      message({ type: 'health', works: [], faults: [] });
      await turn();
      program.exit();
      expect(await running).to.deep.equal({ kind: 'stopped' });
      expect(answers()).to.deep.equal([]);
    });
  });
});
