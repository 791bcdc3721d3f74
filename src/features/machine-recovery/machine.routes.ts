import { everyScope } from '../../platform/http/authentication.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { type JobParts, type RestoreParts, ShownRestore, deviceRequests } from '../backup/index.ts';
import { listMachines, machinesOfDevice } from './machine-inventory.service.ts';
import {
  DeviceMachineQuery,
  DeviceParams,
  FoundMachine,
  MachineQuery,
  MachinesOfDevice,
  MachineWork,
  NewCheckpoint,
  NewMachineBackup,
  NewMachineRestore,
  NewMachineState,
  type ServedHypervisor,
} from './machine.schema.ts';
import {
  backUpMachine,
  changeCheckpoint,
  changeState,
  prepareMachineBackup,
  prepareMachineRestore,
  restoreMachine,
} from './machine.service.ts';

const about = ({ orgId, deviceId, vmId, vmName, type }: MachineWork) => ({
  orgId,
  resourceId: deviceId,
  details: { vmId, vmName, type },
});

/** The routes of one hypervisor. Each has the same ones. */
export const machineRoutes = (hypervisor: ServedHypervisor, parts: JobParts & RestoreParts): RouteGroup => {
  const { kind, prefix, name } = hypervisor;
  return {
    name: `Machines of ${name}`,
    description: `Virtual machines of ${name} on devices: what there is, their backups, checkpoints and states.`,
    routes: [
      route({
        method: 'get',
        path: `/backup/${prefix}/vms`,
        summary: `List the machines of ${name} on all devices`,
        access: everyScope('backup:read'),
        transaction: false,
        query: MachineQuery,
        response: pageOf(FoundMachine),
        errors: ['unavailable'],
        handler: ({ ctx, query, signal }) => listMachines(ctx, kind, query, { ...parts, signal }),
        audit: deviceRequests.readOfDevices(`machines of ${name}`),
      }),
      route({
        method: 'get',
        path: `/backup/${prefix}/vms/:deviceId`,
        summary: `List the machines of ${name} on a device`,
        access: everyScope('backup:read'),
        transaction: false,
        params: DeviceParams,
        query: DeviceMachineQuery,
        response: MachinesOfDevice,
        errors: deviceRequests.LIVE_ERRORS,
        handler: ({ ctx, params: { deviceId }, query: { refresh }, signal }) =>
          machinesOfDevice(ctx, kind, { deviceId, refresh }, { ...parts, signal }),
        audit: deviceRequests.readOfDevice(`machines of ${name}`),
      }),
      route({
        method: 'post',
        path: `/backup/${prefix}/backup`,
        summary: `Back up a machine of ${name} now`,
        description:
          'Makes a snapshot by a backup configuration for machines, or exports the machine into a folder of its device. The answer comes at once; `jobs:subscribe` shows how far it is.',
        access: everyScope('backup:execute'),
        body: NewMachineBackup,
        response: MachineWork,
        status: 201,
        idempotent: true,
        errors: ['conflict', 'capability_missing', 'engine_missing', 'server_engine_missing'],
        prepare: ({ ctx, body }) => prepareMachineBackup(ctx, hypervisor, body, parts),
        handler: ({ ctx, body }) => backUpMachine(ctx, hypervisor, body, parts),
        audit: { action: `backup.${kind}.backup`, resource: 'device', note: about },
      }),
      route({
        method: 'post',
        path: `/backup/${prefix}/restore`,
        summary: `Restore a machine of a snapshot into ${name}`,
        description:
          'The machine is not started. The answer is a restore as `/backup/restore` lists them, and is cancelled there.',
        access: everyScope('recovery:execute'),
        body: NewMachineRestore,
        response: ShownRestore,
        status: 201,
        idempotent: true,
        errors: ['conflict', 'not_found', 'capability_missing', 'engine_missing', 'unavailable'],
        prepare: ({ ctx, body }) => prepareMachineRestore(ctx, body, parts),
        handler: ({ ctx, body, prepared }) =>
          restoreMachine(ctx, hypervisor, body, { source: prepared, parts }),
        audit: {
          action: `backup.${kind}.restore`,
          resource: 'backup_restore',
          note: ({ id, orgId, deviceId, snapshotId, machine }) => ({
            orgId,
            resourceId: id,
            details: { deviceId, snapshotId, machine },
          }),
        },
      }),
      route({
        method: 'post',
        path: `/backup/${prefix}/checkpoint`,
        summary: `Make, delete or apply a checkpoint of a machine of ${name}`,
        description:
          'Applying one discards what the machine has written since. A device that does not begin within 15 minutes does not do it.',
        access: everyScope('backup:execute'),
        body: NewCheckpoint,
        response: MachineWork,
        status: 202,
        idempotent: true,
        errors: ['capability_missing'],
        handler: ({ ctx, body }) => changeCheckpoint(ctx, hypervisor, body, parts),
        audit: {
          action: `backup.${kind}.checkpoint`,
          resource: 'device',
          note: (work, { body: { action, checkpointName = null, checkpointId = null } }) => {
            const { details, ...subject } = about(work);
            return { ...subject, details: { ...details, action, checkpointName, checkpointId } };
          },
        },
      }),
      route({
        method: 'post',
        path: `/backup/${prefix}/vm-state`,
        summary: `Start, stop, pause, resume or save a machine of ${name}`,
        description:
          '`stop` asks the operating system of the machine, `force_stop` is like a power cut. A device that does not begin within 15 minutes does not do it.',
        access: everyScope('backup:execute'),
        body: NewMachineState,
        response: MachineWork,
        status: 202,
        idempotent: true,
        errors: ['capability_missing'],
        handler: ({ ctx, body }) => changeState(ctx, hypervisor, body, parts),
        audit: {
          action: `backup.${kind}.state`,
          resource: 'device',
          note: (work, { body: { state } }) => {
            const { details, ...subject } = about(work);
            return { ...subject, details: { ...details, state } };
          },
        },
      }),
    ],
  };
};
