import { expect } from 'chai';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { SampleReports } from '../../../../../src/agent/capabilities/metrics/sample-reports.ts';
import { HubRefused } from '../../../../../src/agent/core/answer-channel.ts';
import { ServerClock } from '../../../../../src/agent/core/server-clock.ts';
import { readPrivateJson } from '../../../../../src/agent/os/files/private-file.ts';
import { clock } from '../../../../../src/clock.ts';
import type { MetricSamples } from '../../../../../src/protocol/index.ts';
import { testClock } from '../../../../support/test-clock.ts';

const MINUTE = 60_000;

describe('samples that an agent takes', () => {
  let folder: string;
  let reports: SampleReports;
  let taken = 0;
  const sent: MetricSamples[] = [];
  const send = async (message: MetricSamples) => void sent.push(message);
  const valuesSent = () => sent.flatMap(({ samples }) => samples.map((sample) => sample?.load));

  beforeEach(async () => {
    // However long a slow machine takes, no sample but those of `pass` falls due.
    testClock.stop();
    folder = await mkdtemp(path.join(os.tmpdir(), 'samples-'));
    taken = 0;
    sent.length = 0;
    reports = start();
    await reports.start();
  });
  afterEach(async () => {
    await reports.stop();
    await rm(folder, { recursive: true });
    testClock.run();
  });

  const file = () => path.join(folder, 'samples.json');
  const start = () =>
    new SampleReports({
      sample: async () => ({ load: (taken += 1) }),
      serverClock: new ServerClock(),
      file: file(),
      warn: () => {},
      random: () => 0,
    });
  /** Lets so many minutes pass, one by one, with what they cause. */
  const pass = async (minutes: number) => {
    for (let minute = 0; minute < minutes; minute += 1) {
      await testClock.advance(MINUTE);
      await reports.settle();
      await turn();
    }
  };
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  it('are sent by five while there is a connection, and earlier for the first time', async () => {
    reports.connected(send);
    await pass(12);
    expect(sent.slice(0, 3).map(({ samples }) => samples.length)).to.deep.equal([1, 5, 5]);
    expect(valuesSent().slice(0, 11)).to.deep.equal(Array.from({ length: 11 }, (_, n) => n + 1));
  });

  it('are kept through an outage, sent in messages of an hour, and have the times at which they were taken', async () => {
    await pass(150);
    const from = clock.now();
    reports.connected(send);
    for (let pause = 0; pause < 4; pause += 1) {
      await testClock.advance(5000);
      await turn();
    }
    expect(sent).to.have.length(3);
    expect(sent[0]?.samples).to.have.length(60);
    expect(valuesSent().slice(0, 150)).to.deep.equal(Array.from({ length: 150 }, (_, n) => n + 1));
    const first = Date.parse(sent[0]?.samples[0]?.at ?? '');
    expect(from - first).to.be.closeTo(149 * MINUTE, 2 * MINUTE);
  });

  it('survive a restart of the agent', async () => {
    await pass(20);
    await reports.stop();
    const before = taken;
    reports = start();
    await reports.start();
    reports.connected(send);
    await pass(1);
    expect(valuesSent().slice(0, before)).to.deep.equal(Array.from({ length: before }, (_, n) => n + 1));
    await reports.stop();
    expect(await readPrivateJson(file())).to.deep.equal({ samples: [] });
  });

  it('are never more than those of a day', async () => {
    await pass(24 * 60 + 30);
    await reports.stop();
    const { samples } = (await readPrivateJson(file())) as { samples: { load: number }[] };
    expect(samples).to.have.length(24 * 60);
    expect(samples.at(-1)?.load).to.equal(taken);
  });

  it('are kept for another server if this one keeps no history, and asked about once a connection', async () => {
    let asked = 0;
    const old = async () => {
      asked += 1;
      throw new HubRefused('UNKNOWN_EVENT');
    };
    reports.connected(old);
    await pass(5);
    expect(asked).to.equal(1);
    reports.disconnected();
    reports.connected(send);
    await pass(1);
    expect(valuesSent()[0]).to.equal(1);
  });

  it('that a server refuses are not sent for ever', async () => {
    let asked = 0;
    reports.connected(async () => {
      asked += 1;
      throw new HubRefused('VALIDATION_FAILED');
    });
    await pass(11);
    expect(asked).to.be.within(3, 4);
  });

  it('stay if the connection ends before they are acknowledged', async () => {
    reports.connected(() => Promise.reject(new Error('the connection ended')));
    await pass(2);
    reports.disconnected();
    reports.connected(send);
    await pass(1);
    expect(valuesSent().slice(0, 2)).to.deep.equal([1, 2]);
  });
});
