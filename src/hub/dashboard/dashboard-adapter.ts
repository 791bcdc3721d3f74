import { createAdapter, type RedisAdapter } from '@socket.io/redis-adapter';
import type { Namespace } from 'socket.io';
import { z } from 'zod';
import type { RedisConnection } from '../../platform/cluster/redis.ts';
import { JobOutput, JobUpdate } from '../../protocol/index.ts';

/**
 * Sends to the dashboards of all nodes through Socket.IO's Redis adapter. Used directly, one malformed message or one
 * publish while Redis is unavailable ends the process. So the adapter gets two small substitutes for its Redis clients,
 * which pass on unacknowledged broadcasts and nothing else.
 */
export function joinDashboards(
  namespace: Namespace,
  {
    redis,
    subscriber,
    onRefused,
  }: { redis: RedisConnection; subscriber: RedisConnection; onRefused: () => void },
): void {
  const adapter = createAdapter(publisher(redis), listener(subscriber), {
    key: 'muster:dashboards',
    parser: { encode: JSON.stringify, decode: (frame: Buffer) => readFrame(frame, onRefused) },
  });
  // For this namespace only: agents are not addressed through rooms.
  namespace.adapter = adapter(namespace) satisfies RedisAdapter;
}

/** A lost broadcast is not repeated: clients of other nodes see the next state or subscribe again. */
function publisher({ client }: RedisConnection) {
  return {
    publish: (channel: string, frame: string) => void client.publish(channel, frame).catch(() => 0),
    on() {},
    off() {},
  };
}

type Listener = (...frame: unknown[]) => void;

function listener({ client }: RedisConnection) {
  let patterns: string[] = [];
  const listen = () => {
    // If Redis is unavailable, `ready` calls this again.
    if (patterns.length > 0) void client.psubscribe(...patterns).catch(() => 0);
  };
  client.on('ready', listen);
  return {
    psubscribe(pattern: string) {
      patterns.push(pattern);
      listen();
    },
    punsubscribe(pattern: string) {
      patterns = patterns.filter((one) => one !== pattern);
      client.off('ready', listen);
      void client.punsubscribe(pattern).catch(() => 0);
    },
    // These are for requests that wait for every node, which are not used.
    subscribe() {},
    unsubscribe() {},
    on(event: string, heard: Listener) {
      if (event === 'pmessageBuffer') client.on(event, heard);
    },
    off(event: string, heard: Listener) {
      if (event === 'pmessageBuffer') client.off(event, heard);
    },
  };
}

const MAX_FRAME_BYTES = 500_000;

/** `[sender, packet, recipients]` in the adapter's format, restricted to the two events that are used. */
const Frame = z.tuple([
  z.string(),
  z.object({
    type: z.literal(2),
    nsp: z.string(),
    data: z.union([
      z.tuple([z.literal('job:update'), JobUpdate]),
      z.tuple([z.literal('job:output'), JobOutput]),
    ]),
  }),
  z.object({
    rooms: z.array(z.string()).min(1),
    except: z.array(z.string()),
    flags: z.object({}).optional(),
  }),
]);

/** A frame without a packet, which the adapter ignores. */
const IGNORED = ['', undefined, {}];

function readFrame(frame: Buffer, onRefused: () => void): unknown {
  if (frame.length <= MAX_FRAME_BYTES) {
    try {
      const parsed = Frame.safeParse(JSON.parse(frame.toString()));
      if (parsed.success) return parsed.data;
    } catch {
      // Counted below.
    }
  }
  onRefused();
  return IGNORED;
}
