import { expect } from 'chai';
import { type Cluster, joinCluster } from '../../../../src/hub/index.ts';
import { openRedis } from '../../../../src/platform/cluster/redis.ts';
import { bucketOf } from '../../../../src/platform/cluster/redis-claims.ts';
import type { RedisConnection } from '../../../../src/platform/cluster/redis-connection.ts';
import { createMetrics } from '../../../../src/platform/metrics.ts';
import { eventually } from '../../../support/eventually.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { REDIS_GROUPS, type RedisGroup } from '../../../support/redis-groups.ts';

const DEVICES = Array.from({ length: 600 }, (_, n) => `device-${n}`);
/** These are claimed once, so that only their node could know of them if Redis did not. */
const QUIET = Array.from({ length: 300 }, (_, n) => `quiet-${n}`);
const NODES = ['north', 'south'];
/** A silence of two seconds, an election, a new connection and an announcement. */
const SOON_MS = 40_000;

for (const { kind, startOrSkip } of REDIS_GROUPS) {
  describe(`claims while a master of ${kind} is lost`, function () {
    this.timeout(120_000);
    let redis: RedisGroup;
    let log: ReturnType<typeof recordingLog>;
    let connections: RedisConnection[];
    let nodes: Cluster[];
    let heard: unknown[];

    before(async function () {
      redis = await startOrSkip(this);
    });
    after(async () => redis?.remove());
    beforeEach(async () => {
      log = recordingLog();
      connections = await Promise.all(NODES.map(() => openRedis(redis.url, log.log)));
      heard = [];
      nodes = await Promise.all(
        connections.map((connection, at) =>
          joinCluster({
            redis: connection,
            nodeId: NODES[at] ?? '',
            onSuperseded: () => {},
            onTied: () => {},
            onReturn: () => {},
            log: log.log,
            metrics: createMetrics(),
          }),
        ),
      );
      for (const node of nodes) node.bus.onMessage((_from, message) => void heard.push(message));
    });
    afterEach(async () => {
      for (const node of nodes) {
        await node.bus.close();
        await node.close();
      }
      for (const connection of connections) await connection.close();
    });

    /** As if the masters had not told their replicas anything yet, which they do after they have answered. */
    const forgetAtReplicas = async () => {
      for (const port of redis.ports) {
        const info = await redis.ask(port, 'INFO', 'replication');
        if (!info.includes('role:slave')) continue;
        await redis.ask(port, 'CONFIG', 'SET', 'replica-read-only', 'no');
        expect(await redis.ask(port, 'FLUSHALL')).to.match(/^\+OK/);
        await redis.ask(port, 'CONFIG', 'SET', 'replica-read-only', 'yes');
      }
    };

    for (const { how, lose, regain } of [
      {
        how: 'which is killed',
        lose: (port: number) => redis.kill(port),
        regain: (port: number) => redis.start(port),
      },
      {
        how: 'which falls silent',
        lose: async (port: number) => redis.freeze(port),
        regain: async (port: number) => redis.thaw(port),
      },
    ]) {
      it(`are found again, with epochs in order: ${how}`, async () => {
        /** Who claimed a device last, and with which epoch. */
        const last = new Map<string, { nodeId: string; epoch: number }>();
        const over = new AbortController();
        let turn = 0;
        const claimNext = async () => {
          const deviceId = DEVICES[(turn * 7) % DEVICES.length] ?? '';
          const at = Math.floor(turn / 5) % 2;
          turn += 1;
          const nodeId = NODES[at] ?? '';
          const claim = await nodes[at]?.directory.claim(deviceId, nodeId);
          const epoch = claim?.epoch ?? 0;
          expect(epoch, deviceId).to.be.above(last.get(deviceId)?.epoch ?? 0);
          last.set(deviceId, { nodeId, epoch });
          // Without Redis a node goes by its clock, and so two claims of one moment would have no order.
          await new Promise((resolve) => setTimeout(resolve, 2));
        };
        for (const _device of DEVICES) await claimNext();
        for (const deviceId of QUIET) {
          const claim = await nodes[0]?.directory.claim(deviceId, 'north');
          last.set(deviceId, { nodeId: 'north', epoch: claim?.epoch ?? 0 });
        }
        expect(last.size).to.equal(DEVICES.length + QUIET.length);
        const claiming = (async () => {
          while (!over.signal.aborted) await claimNext();
        })();
        const key = `muster:{devices:${bucketOf(DEVICES[0] ?? '')}}:claims`;
        const port = await redis.masterOf(key);
        await forgetAtReplicas();
        await lose(port);
        // Somebody else has the key, and both nodes have found out.
        await eventually(
          () => redis.masterOf(key).catch(() => port),
          (now) => now !== port,
          SOON_MS,
        );
        await eventually(
          () => connections.map((connection) => connection.isWhole()),
          (whole) => whole.every(Boolean),
          SOON_MS,
        );
        over.abort();
        await claiming;
        const found = async () =>
          (
            await Promise.all(
              nodes.flatMap(({ directory }) =>
                [...last.keys()].map(async (deviceId) => {
                  const { nodeId, epoch } = last.get(deviceId) ?? {};
                  const owner = await directory.find(deviceId).catch(() => undefined);
                  return owner?.nodeId === nodeId && owner?.epoch === epoch ? [] : [deviceId];
                }),
              ),
            )
          ).flat();
        await eventually(found, (missing) => missing.length === 0, SOON_MS);
        // Both hear each other, at whichever server their channels are now.
        await eventually(
          async () => {
            heard.length = 0;
            const sent = [
              await nodes[0]?.bus.send('south', { kind: 'work', deviceId: 'device-1' }).catch(() => false),
              await nodes[1]?.bus.send('north', { kind: 'work', deviceId: 'device-2' }).catch(() => false),
            ];
            await nodes[0]?.bus.broadcast({ kind: 'work', deviceId: 'device-3' }).catch(() => undefined);
            await new Promise((resolve) => setTimeout(resolve, 50));
            return [...sent, heard.length];
          },
          (sent) => sent.join() === 'true,true,3',
          SOON_MS,
        );
        expect(await nodes[0]?.bus.send('nobody', { kind: 'work', deviceId: 'device-1' })).to.equal(false);
        expect(nodes.map((node) => node.bus.isGone('north') || node.bus.isGone('south'))).to.deep.equal([
          false,
          false,
        ]);
        const said = JSON.stringify(log.lines);
        expect(said).not.to.include('CROSSSLOT');
        expect(log.lines.filter(({ event }) => event === 'cluster.node_lost')).to.deep.equal([]);
        await regain(port);
        // It is a replica now. Who had a connection to it must not take it for the master.
        await eventually(found, (missing) => missing.length === 0, SOON_MS);
      });
    }

    if (kind === 'a Redis Cluster') {
      it('are found all along while their bucket moves to another master', async () => {
        const [north, south] = nodes;
        const bucket = bucketOf('device-1');
        const ids = DEVICES.concat(Array.from({ length: 4000 }, (_, n) => `more-${n}`)).filter(
          (id) => bucketOf(id) === bucket,
        );
        const epochs = new Map<string, number>();
        const claimAll = async () => {
          for (const id of ids) {
            const { epoch } = (await north?.directory.claim(id, 'north')) ?? { epoch: 0 };
            expect(epoch, id).to.be.above(epochs.get(id) ?? 0);
            epochs.set(id, epoch);
            await new Promise((resolve) => setTimeout(resolve, 2));
          }
        };
        const areFound = async () => {
          const owners = await Promise.all(ids.map(async (id) => south?.directory.find(id)));
          expect(owners.map((owner) => owner?.epoch)).to.deep.equal(ids.map((id) => epochs.get(id)));
        };
        await claimAll();
        await areFound();
        const keys = ['claims', 'epoch'].map((what) => `muster:{devices:${bucket}}:${what}`);
        const [key = ''] = keys;
        const from = await redis.masterOf(key);
        const to = (await redis.masters()).find((port) => port !== from) ?? 0;
        const slot = (await redis.ask(from, 'CLUSTER', 'KEYSLOT', key)).replace(/\D/g, '');
        const idOf = async (port: number) =>
          /[0-9a-f]{40}/.exec(await redis.ask(port, 'CLUSTER', 'MYID'))?.[0] ?? '';
        await redis.ask(to, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', await idOf(from));
        await redis.ask(from, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', await idOf(to));
        await areFound();
        const migrate = (name: string) =>
          redis.ask(from, 'MIGRATE', '127.0.0.1', String(to), name, '0', '5000');
        // Half of it is there and half is here: a script that needs both is put off.
        await migrate(key);
        const meanwhile = claimAll();
        await new Promise((resolve) => setTimeout(resolve, 50));
        for (const name of keys) await migrate(name);
        for (const port of [to, from]) {
          await redis.ask(port, 'CLUSTER', 'SETSLOT', slot, 'NODE', await idOf(to));
        }
        await meanwhile;
        await eventually(
          () => areFound().then(() => '', String),
          (fault) => fault === '',
          SOON_MS,
        );
        expect(await redis.masterOf(key)).to.equal(to);
        expect(JSON.stringify(log.lines)).not.to.include('CROSSSLOT');
      });
    }

    it('refuse at once what they cannot know while no server answers, and are told when one does', async () => {
      const [north] = nodes;
      await north?.directory.claim('device-1', 'north');
      const ports = await redis.masters();
      await Promise.all(ports.map((port) => redis.kill(port)));
      const error = await eventually(
        () =>
          north?.directory.find('device-1').then(
            () => undefined,
            (thrown: Error) => thrown,
          ),
        (thrown) => thrown !== undefined,
        SOON_MS,
      );
      expect(error?.message).not.to.include('CROSSSLOT');
      expect(await connections[0]?.isUp()).to.equal(false);
      const { epoch } = (await north?.directory.claim('device-2', 'north')) ?? {};
      expect(epoch).to.be.above(0);
      await Promise.all(ports.map((port) => redis.start(port)));
      await eventually(
        () => nodes[1]?.directory.find('device-2').catch(() => undefined),
        (owner) => owner?.nodeId === 'north' && owner.epoch === epoch,
        SOON_MS,
      );
    });
  });
}
