import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { type AgentProgram, startAgent } from '../../../support/agent-program.ts';
import { eventually } from '../../../support/eventually.ts';
import { killProgram } from '../../../support/program.ts';
import { redisOrSkip, type TestRedis } from '../../../support/redis.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';
import { enrollFleet } from './support/fleet.ts';
import { levelsOf } from './support/levels.ts';
import type { ServerProgram } from './support/server-program.ts';
import { setStage, type Stage } from './support/stage.ts';

/** `FAULTS_DEVICES=1000` for the whole fleet; what is asked of each device is the same. */
const DEVICES = Number(process.env['FAULTS_DEVICES'] ?? 400);
/** As many as one request may name. */
const AT_ONCE = 500;
/** They come within a second and a half, as many as are let in; whoever is not, a few seconds later. */
const BACK_MS = 45_000;
const SOON_MS = 60_000;

describe(`${DEVICES} agents whose server is killed`, function () {
  this.timeout(180_000);
  let redis: TestRedis;
  let database: TestDatabase;
  let stage: Stage;
  let south: ServerProgram;
  let fleet: AgentProgram | undefined;

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
    // This is about coming back, not about heartbeats.
    stage = await setStage({ database, redisUrl: redis.url, heartbeatSeconds: 30 });
    south = await stage.startServer('south');
    await stage.noteRest();
  });
  afterEach(async () => {
    if (fleet !== undefined) await killProgram(fleet);
  });
  after(async () => {
    await stage?.close();
    await database?.drop();
    await redis?.remove();
  });

  const rows = <Row extends { [column: string]: unknown }>(sql: string) =>
    asOwner<Row>(database.ownerUrl, sql);
  const presences = () =>
    rows<{ node_id: string; state: string; reason: string; devices: number }>(
      'select node_id, state, reason, count(*)::int as devices from device_presence group by 1, 2, 3',
    );
  const allAt = ({ nodeId }: ServerProgram) => [
    { node_id: nodeId, state: 'connected', reason: 'connected', devices: DEVICES },
  ];
  const areAllAt = (server: ServerProgram, withinMs: number) =>
    eventually(presences, (found) => JSON.stringify(found) === JSON.stringify(allAt(server)), withinMs);
  const commands = () =>
    rows<{ status: string; commands: number }>(
      'select status, count(*)::int as commands from commands group by 1 order by 1',
    );

  /** One script for each, by the request of a person. */
  async function orderForAll(server: ServerProgram): Promise<void> {
    const { token, orgId } = stage;
    const body = { name: 'For all', language: 'bash', content: 'true', orgId, timeoutSeconds: 60 };
    const script = await server.call('POST', '/scripts', { token, body });
    expect(script.status, JSON.stringify(script.body)).to.equal(201);
    const devices = await rows<{ id: string }>('select id from devices');
    for (let from = 0; from < devices.length; from += AT_ONCE) {
      const deviceIds = devices.slice(from, from + AT_ONCE).map(({ id }) => id);
      const answer = await server.call('POST', `/scripts/${script.body.id}/execute`, {
        token,
        body: { deviceIds },
      });
      expect(answer.status, JSON.stringify(answer.body)).to.equal(202);
    }
  }

  it('are all back at the other one soon, are all shown so, and lose none of their work', async () => {
    const { north, door } = stage;
    const folder = path.join(stage.folder, `fleet-${newId()}`);
    await mkdir(folder);
    const keys = path.join(folder, 'keys.json');
    await writeFile(keys, JSON.stringify([{ key: 'not-needed', share: 1 }]));
    await enrollFleet({ ...stage, devices: DEVICES, dataDir: folder });

    fleet = startAgent([
      'simulate',
      '--server',
      door.url,
      '--keys-file',
      keys,
      '--devices',
      String(DEVICES),
      '--data-dir',
      folder,
    ]);
    await areAllAt(north, SOON_MS);

    await orderForAll(north);
    // In all states, from queued to succeeded.
    await eventually(commands, (found) => found.some(({ status }) => status === 'running'), SOON_MS);
    const atTheKill = await commands();
    door.to(south);
    await north.kill();
    await eventually(
      () => levelsOf(south),
      ({ agents }) => agents === DEVICES,
      BACK_MS,
    );
    // Behind the moment in which the devices of the lost server are marked: none that is back may be among them.
    await eventually(
      () => south.log(),
      (lines) => lines.some(({ event }) => event === 'cluster.node_lost'),
      SOON_MS,
    );
    await areAllAt(south, SOON_MS);
    await eventually(commands, (found) => found.every(({ status }) => status === 'succeeded'), SOON_MS);
    expect(await commands()).to.deep.equal([{ status: 'succeeded', commands: DEVICES }]);
    const ended = await rows<{ ends: number; commands: number }>(
      `select ends, count(*)::int as commands from (
        select count(*)::int as ends from command_transitions where to_status = 'succeeded' group by command_id
      ) as each group by 1`,
    );
    expect(ended).to.deep.equal([{ ends: 1, commands: DEVICES }]);
    expect(
      atTheKill.find(({ status }) => status === 'succeeded')?.commands ?? 0,
      'it was in the middle of the work',
    ).to.be.below(DEVICES);
    expect(await presences()).to.deep.equal(allAt(south));
  });

  it('leave nothing open when they are gone', () => stage.expectNothingLeft());
});
