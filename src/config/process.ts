import { z } from 'zod';
import { defineArea } from './area.ts';
import { flag, whole } from './variables.ts';

/** The process itself: where it listens, what it is called, what it reports. */
export const processArea = defineArea({
  variables: {
    PORT: whole(3000, 0, 65_535).describe('Port of REST and sockets; 0 takes a free one.'),
    HOST: z
      .union([z.ipv4(), z.ipv6(), z.hostname()], 'must be an address or a host name, such as 127.0.0.1')
      .default('127.0.0.1')
      .describe('Address to listen on; 0.0.0.0 in the image.'),
    DATA_DIR: z
      .string()
      .min(1)
      .default('./data')
      .describe('Folder of the embedded database, generated secrets, mail and agent releases.'),
    NODE_ID: z
      .string()
      .regex(/^[\w.-]{1,64}$/, 'must have 1 to 64 letters, digits, dots, dashes or underscores')
      .optional()
      .describe('Name of this process in a cluster. Absent: generated at each start.'),
    LOG_LEVEL: z
      .enum(['debug', 'info', 'warn', 'error', 'silent'], 'must be debug, info, warn, error or silent')
      .default('info')
      .describe('Least severe level that is logged.'),
    METRICS_TOKEN: z
      .string()
      .min(16, 'must have at least 16 characters')
      .optional()
      .describe('Bearer token for /metrics from elsewhere than loopback.'),
    AGENT_HEARTBEAT_SECONDS: whole(60, 1, 3600).describe('Seconds between the heartbeats of an agent.'),
    ENABLE_REGISTRATION: flag(true).describe('Partners and users may register by themselves.'),
  },
  fromFile: ['METRICS_TOKEN'],
  settings: (env) => ({
    port: env.PORT,
    host: env.HOST,
    dataDir: env.DATA_DIR,
    nodeId: env.NODE_ID,
    logLevel: env.LOG_LEVEL,
    metricsToken: env.METRICS_TOKEN,
    heartbeatSeconds: env.AGENT_HEARTBEAT_SECONDS,
    registrationEnabled: env.ENABLE_REGISTRATION,
  }),
});
