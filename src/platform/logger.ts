import { pino, type DestinationStream, type Logger } from 'pino';
import { clock } from '../clock.ts';

export type { Logger };

/** Keys whose values never reach a log line, at the top and one level down. */
const SECRETS = [
  'password',
  'token',
  'key',
  'secret',
  'authorization',
  'cookie',
  'enrollmentKey',
  'accessToken',
];

/** A logger of events with fields: `log.info({ deviceId }, 'device.connected')`. Error level means someone must act. */
export function createLogger(level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${clock.date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    messageKey: 'event',
    redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`]), censor: '[redacted]' },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}
