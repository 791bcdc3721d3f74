import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  ActiveQuery,
  EstimateQuery,
  NewInstantBoot,
  NewVmRestore,
  VmEstimate,
  VmRestore,
  VmRestoreQuery,
} from './vm-restore.schema.ts';
import {
  cancelVmRestore,
  createInstantBoot,
  createVmRestore,
  discardBoot,
  estimateVm,
  listActive,
  listVmRestores,
  migrateBoot,
  prepareStart,
  prepareVm,
  readVmRestore,
  startBoot,
  type VmRestoreParts,
} from './vm-restore.service.ts';

type ShownVm = Awaited<ReturnType<typeof readVmRestore>>;

const about = ({ id, orgId, deviceId, snapshotId, kind, vmName }: ShownVm) => ({
  orgId,
  resourceId: id,
  resourceName: vmName,
  details: { deviceId, snapshotId, kind },
});
const audited = (action: string) => ({ action, resource: 'backup_vm_restore', note: about });

const write = everyScope('recovery:execute');
const read = everyScope('recovery:read');

export const vmRestoreRoutes = (parts: VmRestoreParts): RouteGroup => ({
  name: 'Virtual machines of snapshots',
  description: 'Snapshots of whole machines that become virtual machines on a device.',
  routes: [
    route({
      method: 'post',
      path: '/backup/restore/as-vm',
      summary: 'Restore a snapshot of a machine as a virtual machine',
      description:
        'Its disks are copied to the host, and the machine is started. Snapshots whose data is not on this server are answered with 409.',
      access: write,
      body: NewVmRestore,
      response: VmRestore,
      status: 201,
      idempotent: true,
      errors: ['conflict', 'not_found', 'capability_missing', 'engine_missing', 'unavailable'],
      prepare: ({ ctx, body, signal }) => prepareVm(ctx, body, parts, signal),
      handler: ({ ctx, body, prepared }) => createVmRestore(ctx, body, prepared, parts),
      audit: audited('backup.restore.as_vm'),
    }),
    route({
      method: 'post',
      path: '/backup/restore/as-vm/estimate',
      summary: 'Estimate what a virtual machine of a snapshot needs',
      access: read,
      transaction: false,
      body: EstimateQuery,
      response: VmEstimate,
      errors: ['conflict', 'not_found', 'unavailable'],
      handler: ({ ctx, body, signal }) => estimateVm(ctx, body, parts, signal),
      unaudited: 'It reads a snapshot and changes nothing.',
    }),
    route({
      method: 'post',
      path: '/backup/restore/instant-boot',
      summary: 'Start a virtual machine straight from a snapshot',
      description:
        'It runs within seconds, because nothing is copied. What it writes is kept on its host. The snapshot is kept until the machine is migrated or discarded.',
      access: write,
      body: NewInstantBoot,
      response: VmRestore,
      status: 201,
      idempotent: true,
      errors: ['conflict', 'not_found', 'capability_missing', 'engine_missing', 'unavailable'],
      prepare: ({ ctx, body, signal }) => prepareVm(ctx, body, parts, signal),
      handler: ({ ctx, body, prepared }) => createInstantBoot(ctx, body, prepared, parts),
      audit: audited('backup.restore.instant_boot'),
    }),
    route({
      method: 'get',
      path: '/backup/restore/instant-boot/active',
      summary: 'List virtual machines that run from snapshots, the newest first',
      access: read,
      query: ActiveQuery,
      response: pageOf(VmRestore),
      handler: ({ ctx, query }) => listActive(ctx, query),
    }),
    route({
      method: 'post',
      path: '/backup/restore/instant-boot/:id/migrate',
      summary: 'Make an instant boot permanent',
      description: 'What the machine still reads from its snapshot is copied while it runs and writes.',
      access: write,
      params: IdParams,
      response: VmRestore,
      idempotent: true,
      errors: ['conflict', 'capability_missing', 'engine_missing'],
      handler: ({ ctx, params }) => migrateBoot(ctx, params.id, parts),
      audit: audited('backup.restore.instant_boot.migrate'),
    }),
    route({
      method: 'post',
      path: '/backup/restore/instant-boot/:id/discard',
      summary: 'Discard an instant boot, with everything that it has written',
      access: write,
      params: IdParams,
      response: VmRestore,
      idempotent: true,
      errors: ['conflict', 'capability_missing', 'engine_missing'],
      handler: ({ ctx, params }) => discardBoot(ctx, params.id, parts),
      audit: audited('backup.restore.instant_boot.discard'),
    }),
    route({
      method: 'post',
      path: '/backup/restore/instant-boot/:id/start',
      summary: 'Start an instant boot again',
      description:
        'One that has stopped, whose host was restarted, or that has lost its snapshot. It has everything that it has written.',
      access: write,
      params: IdParams,
      response: VmRestore,
      idempotent: true,
      errors: ['conflict', 'capability_missing', 'engine_missing', 'unavailable'],
      prepare: ({ ctx, params, signal }) => prepareStart(ctx, params.id, parts, signal),
      handler: ({ ctx, params, prepared }) => startBoot(ctx, params.id, prepared, parts),
      audit: audited('backup.restore.instant_boot.start'),
    }),
    route({
      method: 'get',
      path: '/backup/restore/vm',
      summary: 'List virtual machines of snapshots, the newest first',
      description: 'Also those that have ended, for as long as they are kept.',
      access: read,
      query: VmRestoreQuery,
      response: pageOf(VmRestore),
      handler: ({ ctx, query }) => listVmRestores(ctx, query),
    }),
    route({
      method: 'get',
      path: '/backup/restore/vm/:id',
      summary: 'Read a virtual machine of a snapshot',
      access: read,
      params: IdParams,
      response: VmRestore,
      handler: ({ ctx, params }) => readVmRestore(ctx, params.id),
    }),
    route({
      method: 'post',
      path: '/backup/restore/vm/:id/cancel',
      summary: 'Cancel what is done to a virtual machine of a snapshot',
      description:
        'A machine that was not complete is removed. One that was being migrated runs on from its snapshot.',
      access: write,
      params: IdParams,
      response: VmRestore,
      errors: ['conflict'],
      handler: ({ ctx, params }) => cancelVmRestore(ctx, params.id, parts.hub),
      audit: audited('backup.restore.vm.cancel'),
    }),
  ],
});
