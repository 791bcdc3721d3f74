import { createAdapter, type RedisAdapter } from '@socket.io/redis-adapter';
import type { Namespace } from 'socket.io';
import { z } from 'zod';
import type { RedisConnection } from '../../platform/cluster/redis.ts';
import { JobOutput, JobUpdate } from '../../protocol/index.ts';

/**
 * Fan-out to the dashboards of all nodes over Socket.IO's own adapter. As it comes, one malformed publish ends the
 * process, and so does a publish while Redis is away; so it sees Redis through these two, which carry broadcasts that
 * nobody acknowledges, and nothing else.
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
  // Of this namespace alone: agents are not reached by rooms.
  namespace.adapter = adapter(namespace) satisfies RedisAdapter;
}

/** What is not read is told to the clients of the other nodes by nobody: they see the next state, or subscribe again. */
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
    // Where Redis is away, again when it is there.
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
    // Channels of requests that wait for every node.
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

/** `[sender, packet, where to]`, as the adapter writes it, with our two events and no other. */
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

/** What the adapter passes over: a frame without a packet. */
const NOTHING = ['', undefined, {}];

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
  return NOTHING;
}
