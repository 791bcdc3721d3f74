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
  // test/features/event-logs/log-reads.test.ts
  'GET /system-tools/devices/:deviceId/eventlogs/:name/events',
  'GET /system-tools/devices/:deviceId/eventlogs/:name/events/:recordId',
  'GET /devices/:deviceId/eventlogs/:name/events',
  'GET /devices/:deviceId/eventlogs/:name/events/:recordId',
];

/** Known faults, which end with the entry here. */
const LOGS = 'names and sizes of the logs of a device, and no entry of any';
const SNAPSHOT = 'names of files in a snapshot, read without a transaction that an entry could be part of';
const MACHINES = 'what the device answers of its databases and machines, and what was stored of it';
const ITEMS = 'subjects, senders and names of files of cloud items';
const EXCEPTIONS: Record<string, string> = {
  'GET /system-tools/devices/:deviceId/eventlogs': LOGS,
  'GET /system-tools/devices/:deviceId/eventlogs/:name': LOGS,
  'GET /devices/:deviceId/eventlogs/live': LOGS,
  'GET /devices/:deviceId/eventlogs/:name': LOGS,
  'GET /backup/snapshots/:id/browse': SNAPSHOT,
  'GET /backup/snapshots/:id/search': SNAPSHOT,
  'GET /backup/snapshots/:id/diff': SNAPSHOT,
  'GET /backup/snapshots/:id/machine': SNAPSHOT,
  'GET /backup/databases/instances': MACHINES,
  'GET /backup/databases/instances/:deviceId': MACHINES,
  'GET /backup/vss/status/:deviceId': MACHINES,
  'GET /backup/hyperv/vms': MACHINES,
  'GET /backup/hyperv/vms/:deviceId': MACHINES,
  'GET /backup/kvm/vms': MACHINES,
  'GET /backup/kvm/vms/:deviceId': MACHINES,
  'GET /backup/mssql/instances': MACHINES,
  'GET /backup/mssql/instances/:deviceId': MACHINES,
  'GET /backup/mssql/chains': MACHINES,
  'GET /c2c/items': ITEMS,
  'GET /c2c/items/:id': ITEMS,
  'GET /c2c/items/:id/versions': ITEMS,
};

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

  it('writes data.export or data.access, but for the known exceptions', () => {
    const silent = sending.filter((row) => !isWritten(row)).map(nameOf);
    expect(silent).to.have.members([...WRITTEN_BY_SERVICE, ...Object.keys(EXCEPTIONS)]);
  });
});
