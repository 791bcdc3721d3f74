import { randomUUID } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { writeOfferState } from '../../../src/agent/capabilities/update/offer.ts';
import { saveCredentials } from '../../../src/agent/core/settings.ts';
import { AGENT_VERSION } from '../../../src/agent/core/version.ts';
import { DiagnosticLog, LogLine } from '../../../src/agent/os/diagnostic-log.ts';
import { writeAttempt, recordFailure, note } from '../../../src/agent/os/releases/upgrade-files.ts';
import { agentCommand, startAgent, type AgentProgram } from '../../support/agent-program.ts';
import { eventually } from '../../support/eventually.ts';
import { type ScriptedHub, startScriptedHub } from '../../support/scripted-hub.ts';
import { temporaryFolder } from '../../support/agent/test-agent.ts';

const TOKEN = `magt_${'A'.repeat(46)}`;

describe('what the agent says about itself on its machine', function () {
  this.timeout(120_000);
  let hub: ScriptedHub;
  let dataDir: string;
  let removeFolder: () => Promise<void>;
  const programs = new Set<AgentProgram>();

  beforeEach(async () => {
    hub = await startScriptedHub();
    const { folder, remove } = await temporaryFolder();
    removeFolder = remove;
    dataDir = path.join(folder, 'data');
    await mkdir(dataDir, { mode: 0o700 });
    await saveCredentials(dataDir, {
      server: hub.url,
      deviceId: 'd',
      orgId: 'o',
      siteId: 's',
      token: TOKEN,
      heartbeatSeconds: 60,
      enrolledAt: new Date().toISOString(),
    });
  });
  afterEach(async () => {
    for (const { child } of programs) child.kill('SIGKILL');
    await Promise.all([...programs].map(({ ended }) => ended));
    programs.clear();
    await hub.close();
    await removeFolder();
  });

  const start = (...words: string[]) => {
    const program = startAgent([...words, '--data-dir', dataDir]);
    programs.add(program);
    return program;
  };
  const command = (...words: string[]) => agentCommand([...words, '--data-dir', dataDir]);
  const linesOf = (output: string) =>
    output
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => LogLine.parse(JSON.parse(line)));
  const messagesOf = (output: string) => linesOf(output).map(({ message }) => message);

  it('is in its log after a kill, with its versions in the status, and never its token', async () => {
    const agent = start('run');
    // Each question is a start of the program, so it is asked when the file has the answer.
    await eventually(
      () => readFile(path.join(dataDir, 'status.json'), 'utf8').catch(() => ''),
      (text) => text.includes('"connected"'),
    );
    const status = await eventually(
      () => command('status', '--json'),
      ({ output }) => output.includes('"state":"connected"'),
    );
    expect(JSON.parse(status.output)).to.deep.include({
      enrolled: true,
      agentVersion: AGENT_VERSION,
      upgrade: { automatic: true, offer: null, attempt: null, trial: null, lastFailure: null },
    });
    agent.child.kill('SIGKILL');
    await agent.ended;
    const { code, output } = await command('logs', '--json');
    expect(code).to.equal(0);
    expect(messagesOf(output)[0]).to.equal(`agent ${AGENT_VERSION} started as device d at ${hub.url}`);
    const connected = linesOf(output).find(({ component }) => component === 'connection');
    expect(connected).to.include({ level: 'info', version: AGENT_VERSION, pid: agent.child.pid });
    expect(output).to.not.contain(TOKEN);
  });

  it('is followed over rotations, from both programs, and filtered', async () => {
    const log = (writer: 'agent' | 'watchdog') =>
      new DiagnosticLog({ dataDir, writer, version: '1.0.0', maxBytes: 2000 });
    const [agent, watchdog] = [log('agent'), log('watchdog')];
    // The order of two programs is known to the millisecond.
    const nextMoment = () => new Promise((resolve) => setTimeout(resolve, 20));
    agent.write('info', 'agent', 'past 1');
    await nextMoment();
    watchdog.write('warn', 'watchdog', 'past 2');
    await nextMoment();
    agent.write('error', 'connection', `past 3 \u001b[31m${TOKEN}`);

    const text = (await command('logs', '-n', '2')).output;
    expect(text).to.match(/ {2}warn {3}watchdog: past 2\n.* {2}error {2}connection: past 3 {2}\[31mmagt_…\n/);
    expect(messagesOf((await command('logs', '--json', '--level', 'warn')).output)).to.have.length(2);
    const ofOne = await command('logs', '--json', '--component', 'watchdog,shipping');
    expect(messagesOf(ofOne.output)).to.deep.equal(['past 2']);
    expect((await command('logs', '--level', 'loud')).code).to.equal(1);
    expect((await command('logs', '-n', 'many')).code).to.equal(1);

    const follower = start('logs', '-f', '--json', '-n', '1');
    await eventually(
      () => messagesOf(follower.output()),
      (messages) => messages.length === 1,
      30_000,
    );
    const expected: string[] = [];
    for (let i = 0; i < 60; i++) {
      const [writer, component] = i % 2 === 0 ? [agent, 'agent'] : [watchdog, 'watchdog'];
      writer.write('info', component, `new ${i}`);
      expected.push(`new ${i}`);
      await nextMoment();
    }
    await eventually(
      () => messagesOf(follower.output()).slice(1),
      (messages) => messages.length >= expected.length,
    );
    expect(messagesOf(follower.output()).slice(1)).to.deep.equal(expected);
  });

  it('says which upgrade runs, which one failed, and when that is tried again', async () => {
    const release = { component: 'agent', version: '9.9.9', sha256: 'a'.repeat(64) };
    const attemptId = randomUUID();
    await writeOfferState(dataDir, { component: 'agent', version: '9.9.9' });
    await recordFailure(dataDir, { ...release, code: 'CRASHED', message: 'It ended.', isTemporary: false });
    await writeAttempt(dataDir, { ...release, attemptId });
    note(dataDir, { step: 'download_started', component: 'agent', version: '9.9.9', attemptId });
    const { upgrade } = JSON.parse((await command('status', '--json')).output);
    const { lastFailure, attempt } = upgrade;
    expect(attempt).to.include({ version: '9.9.9', attemptId, step: 'download_started' });
    expect(lastFailure).to.deep.include({
      release: { component: 'agent', version: '9.9.9' },
      code: 'CRASHED',
    });
    expect(Date.parse(lastFailure.nextTryAt) - Date.parse(lastFailure.at)).to.equal(3_600_000);
    const text = (await command('status')).output;
    expect(text)
      .to.contain('The server offers the agent 9.9.9.')
      .and.to.contain('The upgrade of the agent to 9.9.9 is running: download_started at ')
      .and.to.contain(`(CRASHED): It ended. It is tried again at ${lastFailure.nextTryAt} at the earliest.`);
    // The server offers it again when that time has come, so a missing offer is no end.
    await writeOfferState(dataDir, undefined);
    expect((await command('status')).output).to.contain(
      `It is tried again at ${lastFailure.nextTryAt} at the earliest, if the server offers it then.`,
    );
  });
});
