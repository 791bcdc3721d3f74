import { expect } from 'chai';
import type { Service } from '../../../../../src/agent/capabilities/services/service-reader.ts';
import { ServiceReports } from '../../../../../src/agent/capabilities/services/service-reports.ts';
import { HubRefused } from '../../../../../src/agent/core/answer-channel.ts';
import { ServerClock } from '../../../../../src/agent/core/server-clock.ts';
import { clock } from '../../../../../src/clock.ts';
import type { ServiceReport } from '../../../../../src/protocol/index.ts';
import { useTestClock } from '../../../../support/use-test-clock.ts';

const MINUTE = 60_000;

describe('the reports of an agent about services', () => {
  const time = useTestClock({ isRunning: false });
  let reports: ServiceReports;
  let services: Service[];
  let reads: number;
  let readingMs: number;
  let isFailing: boolean;
  let warnings: string[];
  let sent: ServiceReport[];
  const send = async (report: ServiceReport) => void sent.push(report);

  beforeEach(() => {
    services = [{ name: 'nginx', state: 'running' }];
    [reads, readingMs, isFailing, warnings, sent] = [0, 0, false, [], []];
    reports = new ServiceReports({
      async read() {
        reads += 1;
        if (readingMs > 0) await clock.sleep(readingMs);
        if (isFailing) throw new Error('It failed.');
        return { manager: 'systemd', services };
      },
      serverClock: new ServerClock(),
      warn: (message) => void warnings.push(message),
      firstMs: 20_000,
      random: () => 0,
    });
    reports.start();
  });
  afterEach(() => reports.stop());

  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const pass = async (minutes: number) => {
    for (let minute = 0; minute < minutes; minute += 1) {
      await time.advance(MINUTE);
      await reports.settle();
      await turn();
    }
  };

  it('are everything at first and then only changes, with the time at which they were seen', async () => {
    reports.connected(send);
    await pass(5);
    expect(sent).to.deep.equal([
      { manager: 'systemd', isComplete: true, services: [{ name: 'nginx', state: 'running' }] },
    ]);
    services = [{ name: 'nginx', state: 'stopped' }];
    await pass(3);
    expect(sent).to.have.length(2);
    expect(sent[1]).to.deep.include({ isComplete: false });
    expect(Date.parse(sent[1]?.services[0]?.since ?? '')).to.be.within(
      clock.now() - 3 * MINUTE,
      clock.now() - MINUTE,
    );
  });

  it('are sent soon after a person has changed a service, also if a restart leaves its state as it was', async () => {
    reports.connected(send);
    await pass(2);
    services = [{ name: 'nginx', state: 'stopped' }];
    const readBefore = reads;
    reports.refresh();
    reports.refresh();
    await time.advance(10);
    await reports.settle();
    await turn();
    expect(reads - readBefore).to.equal(1);
    expect(sent.at(-1)?.services[0]?.state).to.equal('stopped');
    reports.refresh('nginx');
    await time.advance(10);
    await reports.settle();
    await turn();
    expect(sent).to.have.length(3);
    expect(Date.parse(sent[2]?.services[0]?.since ?? '')).to.be.within(clock.now() - 1000, clock.now());
    // The regular readings go on.
    services = [{ name: 'nginx', state: 'running' }];
    await pass(2);
    expect(sent).to.have.length(4);
  });

  it('are the newest state after an outage, with its time, and not what was in between', async () => {
    reports.connected(send);
    await pass(2);
    reports.disconnected();
    for (const state of ['stopped', 'failed', 'stopped'] as const) {
      services = [{ name: 'nginx', state }];
      await pass(1);
    }
    await pass(10);
    reports.connected(send);
    await pass(1);
    expect(sent).to.have.length(2);
    expect(sent[1]?.services).to.have.length(1);
    expect(sent[1]?.services[0]?.state).to.equal('stopped');
    expect(clock.now() - Date.parse(sent[1]?.services[0]?.since ?? '')).to.be.within(
      10 * MINUTE,
      12 * MINUTE,
    );
  });

  it('are sent again if the connection ended before they were acknowledged', async () => {
    reports.connected(async () => {
      throw new Error('the connection ended');
    });
    await pass(2);
    reports.connected(send);
    await pass(1);
    expect(sent).to.have.length(1);
    expect(sent[0]?.isComplete).to.equal(true);
  });

  it('are not sent to a server that does not know them, until the next connection', async () => {
    let asked = 0;
    reports.connected(async () => {
      asked += 1;
      throw new HubRefused('UNKNOWN_EVENT');
    });
    await pass(10);
    expect(asked).to.equal(1);
    expect(warnings).to.deep.equal([]);
    reports.disconnected();
    reports.connected(send);
    await pass(1);
    expect(sent).to.have.length(1);
  });

  it('are refused once, with one warning, and not repeated each minute', async () => {
    let asked = 0;
    reports.connected(async () => {
      asked += 1;
      throw new HubRefused('VALIDATION_FAILED');
    });
    await pass(10);
    expect(asked).to.equal(1);
    expect(warnings).to.have.length(1);
  });

  it('are everything again once a day', async () => {
    reports.connected(send);
    await pass(19 * 60);
    expect(sent).to.have.length(1);
    await pass(60);
    expect(sent.map(({ isComplete }) => isComplete)).to.deep.equal([true, true]);
  });

  it('take at most a 600th of the time, and are read every ten minutes at least', async () => {
    await pass(10);
    expect(reads).to.be.within(9, 10);
    readingMs = 300;
    await pass(3);
    reads = 0;
    await pass(30);
    expect(reads).to.be.within(9, 11);
    readingMs = 20_000;
    await pass(15);
    reads = 0;
    await pass(60);
    expect(reads).to.be.within(5, 7);
  });

  it('go on after a reading that failed, which says so once and does not look like no services', async () => {
    reports.connected(send);
    await pass(2);
    isFailing = true;
    await pass(5);
    expect(warnings).to.deep.equal(['The services of this machine cannot be read: Error: It failed.']);
    isFailing = false;
    await pass(2);
    expect(sent).to.have.length(1);
  });
});
