import { expect } from 'chai';
import type { AnyRoute } from '../../src/platform/http/route.ts';
import { allRows, nameOf } from './row-kinds.ts';

/**
 * Whatever sends customers' data out writes `data.export` or `data.access` (SHAPES 19): exports, recovery kits,
 * downloads, live reads and items of cloud backups.
 */

const COMPLIANCE = new Set<string | undefined>(['data.export', 'data.access']);

/** The public ones send programs and documents of ours. */
function sendsData({ access, method, path, media, transaction }: AnyRoute): boolean {
  if (access === 'public' || access === 'agent') return false;
  const isLive = method === 'get' && !transaction;
  const isFile = media !== undefined || /\/(export|download|content|recovery-kit)$/.test(path);
  const isItem = method === 'get' && path.startsWith('/c2c/items');
  const isLog = method === 'get' && /^\/devices\/:\w+\/(eventlogs|diagnostic-logs)/.test(path);
  return isLive || isFile || isItem || isLog;
}

/** Routes whose service writes the entry, because there is no transaction that it could be part of. */
const WRITTEN_BY_SERVICE = [
  // test/server/features/logs/log-reads.test.ts
  'GET /system-tools/devices/:deviceId/eventlogs/:name/events',
  'GET /system-tools/devices/:deviceId/eventlogs/:name/events/:recordId',
  'GET /devices/:deviceId/eventlogs/:name/events',
  'GET /devices/:deviceId/eventlogs/:name/events/:recordId',
];

describe('a route that sends customers’ data out', () => {
  const sending = allRows.filter(sendsData);
  const isWritten = ({ audit }: AnyRoute) => COMPLIANCE.has(audit?.action) || COMPLIANCE.has(audit?.alsoAs);

  it('is any that answers with a file, from a device, from a snapshot or from a cloud backup', () => {
    expect(sending.map(nameOf)).to.include.members([
      'GET /audit-logs/export',
      'GET /backup/encryption/keys/:id/recovery-kit',
      'GET /backup/snapshots/:id/download',
      'GET /c2c/items/:id/content',
      'GET /devices/:id/eventlogs',
      'GET /system-tools/devices/:deviceId/eventlogs/:name/events',
      'POST /c2c/items/export',
    ]);
  });

  it('writes data.export or data.access', () => {
    const silent = sending.filter((row) => !isWritten(row)).map(nameOf);
    expect(silent).to.have.members(WRITTEN_BY_SERVICE);
  });
});
