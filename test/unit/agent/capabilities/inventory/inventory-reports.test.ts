import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import type { MachineInventory } from '../../../../../src/agent/capabilities/inventory/collect.ts';
import {
  InventoryReports,
  type InventoryReportsOptions,
} from '../../../../../src/agent/capabilities/inventory/inventory-reports.ts';
import { type ServerAnswer, ServerCallError } from '../../../../../src/agent/core/server-call.ts';
import { ServerClock } from '../../../../../src/agent/core/server-clock.ts';
import { fixedToken } from '../../../../../src/agent/core/tokens.ts';
import type { Inventory } from '../../../../../src/protocol/index.ts';
import { eventually } from '../../../../support/eventually.ts';
import { useTestClock } from '../../../../support/use-test-clock.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';

const CONNECTED = { state: 'connected', since: '2026-01-01T00:00:00.000Z', lastHeartbeatAt: null } as const;
const WAITING = { state: 'waiting', nextTryAt: '2026-01-01T00:00:00.000Z', reason: 'x' } as const;
const TAKEN: ServerAnswer = { status: 200, body: { ok: true }, refusal: undefined, retryAfterMs: undefined };
const refusal = (status: number, retryAfterMs?: number): ServerAnswer => ({
  status,
  body: {},
  refusal: `refused with ${status}`,
  retryAfterMs,
});

describe('agent: inventory reports', () => {
  const testClock = useTestClock();
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;
  let file: string;
  let machine: MachineInventory;
  let looks: number;
  let sent: Inventory[];
  let warnings: string[];
  let answers: (ServerAnswer | Error)[];
  const running: InventoryReports[] = [];
  const live = new AbortController().signal;

  beforeEach(async () => {
    temporary = await temporaryFolder();
    file = path.join(temporary.folder, 'inventory.json');
    machine = { lastUser: 'anna', software: [{ name: 'a', version: '1' }] };
    looks = 0;
    sent = [];
    warnings = [];
    answers = [];
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map(async (one) => one.stop()));
    await temporary.remove();
  });

  async function begin(more: Partial<InventoryReportsOptions> = {}): Promise<InventoryReports> {
    const reports = new InventoryReports({
      collect: async () => {
        looks += 1;
        return machine;
      },
      send: async (inventory) => {
        const answer = answers.shift() ?? TAKEN;
        if (answer instanceof Error) throw answer;
        sent.push(inventory);
        return answer;
      },
      tokens: fixedToken('t'),
      serverClock: new ServerClock(),
      file,
      warn: (message) => warnings.push(message),
      firstMs: 0,
      everyMs: 30,
      spreadMs: 0,
      refreshMs: 2000,
      random: () => 0,
      ...more,
    });
    running.push(reports);
    await reports.start();
    return reports;
  }
  const looked = async (more = 2) => {
    const before = looks;
    await eventually(
      () => looks,
      (now) => now >= before + more,
    );
  };
  const received = (count: number) =>
    eventually(
      () => sent.length,
      (length) => length >= count,
    );

  it('are sent once, and again after a change', async () => {
    const reports = await begin();
    reports.onState(CONNECTED);
    await received(1);
    await looked();
    expect(sent).to.have.length(1);
    expect(sent[0]).to.deep.include(machine);
    expect(testClock.now() - Date.parse(sent[0]!.collectedAt)).to.be.within(-50, 20_000);
    machine = { ...machine, software: [] };
    await received(2);
    await looked();
    expect(sent).to.have.length(2);
  });

  it('leave out times that are in the future for the server, which would refuse the whole inventory', async () => {
    const serverClock = new ServerClock();
    const [yesterday, tomorrow] = [-1, 1].map((days) =>
      new Date(testClock.now() + days * 24 * 3_600_000).toISOString(),
    );
    // The clock of the machine is days ahead, and programs were installed by it.
    serverClock.startReading()(new Date(testClock.now()).toISOString());
    machine = {
      software: [
        { name: 'a', installedAt: yesterday! },
        { name: 'b', installedAt: tomorrow! },
      ],
    };
    (await begin({ serverClock })).onState(CONNECTED);
    await received(1);
    expect(sent[0]!.software).to.deep.equal([{ name: 'a', installedAt: yesterday }, { name: 'b' }]);
  });

  it('are not sent again after a restart until a day has passed', async () => {
    (await begin()).onState(CONNECTED);
    await received(1);
    await eventually(
      () => readFile(file, 'utf8').catch(() => ''),
      (content) => content !== '',
    );
    await running.pop()!.stop();
    (await begin()).onState(CONNECTED);
    await looked();
    expect(sent).to.have.length(1);

    const kept = JSON.parse(await readFile(file, 'utf8')) as { hash: string; at: number };
    for (const at of [testClock.now() - 86_400_000, testClock.now() + 86_400_000]) {
      await running.pop()!.stop();
      await writeFile(file, JSON.stringify({ ...kept, at }));
      const before = sent.length;
      (await begin()).onState(CONNECTED);
      await received(before + 1);
    }
  });

  it('wait for a connection, only the latest one, with the time of its collection', async () => {
    const reports = await begin();
    await looked();
    machine = { lastUser: 'ben' };
    await looked();
    expect(sent).to.deep.equal([]);
    await reports.stop();
    const serverClock = new ServerClock();
    const late = await begin({ everyMs: 60_000, serverClock });
    await looked(1);
    await testClock.advance(60_000 - 1000);
    // The server's clock is an hour ahead of this machine's; it tells so only now.
    serverClock.startReading()(new Date(testClock.now() + 3_600_000).toISOString());
    late.onState(CONNECTED);
    await received(1);
    expect(sent[0]!.lastUser).to.equal('ben');
    expect(Date.parse(sent[0]!.collectedAt) - testClock.now()).to.be.within(
      3_600_000 - 80_000,
      3_600_000 - 59_000,
    );
  });

  it('are sent again when the server could not be reached or asked to wait, and not before', async () => {
    answers = [new ServerCallError(3, 'not reached'), refusal(429, 40_000), refusal(503)];
    const reports = await begin({ everyMs: 60_000 });
    const began = testClock.monotonic();
    reports.onState(CONNECTED);
    await eventually(
      async () => {
        await testClock.advance(250);
        return sent.length;
      },
      (length) => length >= 1,
    );
    await testClock.advance(30_000);
    expect(sent, 'not before').to.have.length(1);
    await testClock.advance(10_000);
    await eventually(
      async () => {
        await testClock.advance(250);
        return sent.length;
      },
      (length) => length >= 3,
    );
    expect(testClock.monotonic() - began).to.be.least(40_000 + 2 * 250);
    expect(warnings).to.deep.equal([]);
  });

  it('are dropped when the server refuses them, and the next one is sent', async () => {
    answers = [refusal(400)];
    const reports = await begin();
    reports.onState(CONNECTED);
    await received(2);
    expect(warnings).to.deep.equal(['The server refused the inventory of this machine: refused with 400']);
  });

  it('continue after a failed collection, which is reported once', async () => {
    let works = false;
    const reports = await begin({
      collect: async () => {
        looks += 1;
        if (!works) throw new Error('rpmdb is locked');
        return machine;
      },
    });
    reports.onState(CONNECTED);
    await looked(3);
    expect(warnings).to.deep.equal(['Error: rpmdb is locked']);
    expect(sent).to.deep.equal([]);
    works = true;
    await received(1);
  });

  describe('on request', () => {
    it('are sent even without a change, and end when the server has accepted them', async () => {
      const reports = await begin({ everyMs: 60_000 });
      reports.onState(CONNECTED);
      await received(1);
      let release = (): void => {};
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      const slow = await begin({
        everyMs: 60_000,
        firstMs: 60_000,
        random: () => 1,
        send: async (inventory) => {
          sent.push(inventory);
          await held;
          return TAKEN;
        },
      });
      slow.onState(CONNECTED);
      let isAnswered = false;
      const answered = slow.refresh(live).then(() => {
        isAnswered = true;
      });
      await received(2);
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(isAnswered).to.equal(false);
      release();
      await answered;
    });

    it('are not satisfied by an inventory that was collected before the request', async () => {
      const releases: (() => void)[] = [];
      const reports = await begin({
        firstMs: 0,
        everyMs: 60_000,
        send: async (inventory) => {
          sent.push(inventory);
          await new Promise<void>((resolve) => releases.push(resolve));
          return TAKEN;
        },
      });
      reports.onState(CONNECTED);
      await received(1);
      machine = { lastUser: 'now' };
      let isAnswered = false;
      const answered = reports.refresh(live).then(() => {
        isAnswered = true;
      });
      await looked(0);
      await new Promise((resolve) => setTimeout(resolve, 50));
      releases.shift()!();
      await received(2);
      expect(isAnswered).to.equal(false);
      expect(sent[1]!.lastUser).to.equal('now');
      releases.shift()!();
      await answered;
    });

    it('fail with a message when the server does not accept them in time or at all', async () => {
      const fault = (reports: InventoryReports, signal = live) =>
        reports.refresh(signal).then(
          () => 'taken',
          (error: Error) => error.message,
        );
      const away = await begin({ refreshMs: 50, everyMs: 60_000 });
      expect(await fault(away)).to.include('has not accepted it yet');
      answers = [refusal(400)];
      const refused = await begin({ everyMs: 60_000, firstMs: 60_000, random: () => 1 });
      refused.onState(CONNECTED);
      expect(await fault(refused)).to.include('refused with 400');
      const broken = await begin({
        collect: async () => {
          throw new Error('rpmdb is locked');
        },
      });
      expect(await fault(broken)).to.equal('rpmdb is locked');
      const cancelled = new AbortController();
      setTimeout(() => cancelled.abort(), 30);
      expect(await fault(away, cancelled.signal)).to.include('has not accepted it yet');
      // What it came to nothing for is still sent later.
      away.onState(CONNECTED);
      await received(2);
      away.onState(WAITING);
    });
  });
});
