import { z } from 'zod';
import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup, type AuditNote, type AnyRoute } from '../../platform/http/route.ts';
import { asReported, listDevices, readDevice } from './device.service.ts';
import {
  costOfListing,
  Device,
  DeviceColumnsPage,
  DeviceColumnsQuery,
  DeviceQuery,
  Approval,
  AutoUpdate,
  type BulkAction,
  BulkChange,
  BulkChanged,
  DeviceMove,
  DeviceMoved,
  DevicePatch,
  Maintenance,
} from './device.schema.ts';
import { readColumns } from './device-columns.queries.ts';
import { type BulkParts, changeInBulk } from './bulk.service.ts';
import { decommissionDevice, restoreDevice, approveDevice } from './device-lifecycle.service.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { changeMaintenance } from './maintenance.work.ts';
import { moveDevice, updateDevice } from './device-update.service.ts';

/** The audit note of the action, as for a change of a single device. */
function noteOf(action: BulkAction): Pick<AuditNote, 'action' | 'details'> {
  const changed = (...changedFields: string[]) => ({ details: { changedFields, inBulk: true } });
  switch (action.type) {
    case 'maintenance': {
      const { type: _type, ...wanted } = action;
      return { action: 'device.maintenance', details: { ...wanted, inBulk: true } };
    }
    case 'decommission':
      return { action: 'device.delete', details: { inBulk: true } };
    case 'site':
      return changed('siteId');
    case 'customFields':
      return changed(...Object.keys(action.set).map((key) => `customFields.${key}`));
    case 'tags':
    case 'autoUpdate':
      return changed(action.type);
    default:
      return action satisfies never;
  }
}

export function deviceRoutes(parts: BulkParts): RouteGroup {
  return {
    name: 'Devices',
    description: 'Managed devices and their connections.',
    routes: [
      route({
        method: 'get',
        path: '/devices',
        summary: 'List devices',
        access: everyScope('devices:read'),
        cost: costOfListing,
        query: DeviceQuery,
        response: pageOf(Device),
        handler: ({ ctx, query }) => listDevices(ctx, query),
      }),
      route({
        method: 'get',
        path: '/devices/columns',
        summary: 'Read a few properties of many devices',
        description:
          'For lists beside the live summaries of the socket: all devices of the scope, in the order of their ids, 1000 a page. A custom field that an organization has not defined has no values there.',
        access: everyScope('devices:read'),
        query: DeviceColumnsQuery,
        response: DeviceColumnsPage,
        handler: ({ ctx, query }) => readColumns(ctx, query),
      }),
      route({
        method: 'get',
        path: '/devices/:id',
        summary: 'Read a device',
        access: everyScope('devices:read'),
        params: IdParams,
        response: Device,
        handler: async ({ ctx, params }) => asReported(parts.hub, await readDevice(ctx, params.id)),
      }),
      route({
        method: 'delete',
        path: '/devices/:id',
        summary: 'Decommission a device',
        access: everyScope('devices:delete'),
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        errors: ['tenant_inactive'],
        handler: ({ ctx, params }) => decommissionDevice(ctx, params.id, parts),
        audit: { action: 'device.delete', resource: 'device', note: ({ device }) => about(device) },
      }),
      ...managementRoutes(parts),
    ],
  };
}

const about = ({ id, orgId, hostname }: { id: string; orgId: string; hostname: string }) =>
  auditSubject({ id, orgId, name: hostname });

/** Changes of devices by users. */
const managementRoutes = (parts: BulkParts): AnyRoute[] => [
  route({
    method: 'post',
    path: '/devices/bulk',
    summary: 'Change many devices at once',
    description:
      'Each device has its own result; a device that cannot be changed does not stop the others. Decommissioning also requires `devices:delete`.',
    access: everyScope('devices:write'),
    cost: 'expensive',
    body: BulkChange,
    response: BulkChanged,
    idempotent: true,
    handler: ({ ctx, body }) => changeInBulk(ctx, body, parts),
    audit: {
      action: 'device.update',
      resource: 'device',
      note: ({ changed }, { body: { action } }) =>
        changed.map((device) => ({ ...about(device), ...noteOf(action) })),
    },
  }),
  route({
    method: 'patch',
    path: '/devices/:id',
    summary: 'Change a device',
    access: everyScope('devices:write'),
    params: IdParams,
    body: DevicePatch,
    response: Device,
    errors: ['conflict', 'tenant_inactive'],
    handler: ({ ctx, params, body }) => updateDevice(ctx, params.id, body, parts),
    audit: {
      action: 'device.update',
      resource: 'device',
      note: (device) => ({ ...about(device), details: { changedFields: device.changedFields } }),
    },
  }),
  route({
    method: 'post',
    path: '/devices/:id/auto-update',
    summary: 'Switch the automatic upgrades of a device on or off',
    description: 'The setting is also sent to the agent, which stores it.',
    access: everyScope('devices:write'),
    params: IdParams,
    body: AutoUpdate,
    response: Device,
    errors: ['conflict', 'tenant_inactive'],
    handler: ({ ctx, params, body }) => updateDevice(ctx, params.id, { autoUpdate: body.enabled }, parts),
    audit: {
      action: 'device.update',
      resource: 'device',
      note: (device) => ({ ...about(device), details: { changedFields: device.changedFields } }),
    },
  }),
  route({
    method: 'post',
    path: '/devices/:id/maintenance',
    summary: 'Start or end maintenance',
    description:
      'A device in maintenance has the status `maintenance`, connected or not, until a user ends it or its time expires.',
    access: everyScope('devices:write'),
    params: IdParams,
    body: Maintenance,
    response: Device,
    errors: ['conflict', 'tenant_inactive'],
    handler: ({ ctx, params, body }) => changeMaintenance(ctx, params.id, body, parts.hub),
    audit: {
      action: 'device.maintenance',
      resource: 'device',
      note: (device, { body }) => ({ ...about(device), details: body }),
    },
  }),
  route({
    method: 'post',
    path: '/devices/:id/approve',
    summary: 'Approve a device that waits for approval',
    description:
      'For a machine that was enrolled with the machine id of a connected device. Without `replaces` it becomes a device of its own. With `replaces`, which needs a session with a second factor and `devices:delete`, it continues the record of that device, which is the response. `DELETE /devices/:id` removes such a machine instead.',
    access: everyScope('devices:write'),
    params: IdParams,
    body: Approval,
    response: Device,
    errors: ['conflict', 'mfa_required', 'tenant_inactive'],
    handler: ({ ctx, params, body }) => approveDevice(ctx, params.id, body, parts),
    audit: {
      action: 'device.approve',
      resource: 'device',
      note: (device, { params, body }) => ({
        ...about(device),
        ...(body.replaces === undefined ? {} : { details: { replaces: body.replaces, approved: params.id } }),
      }),
    },
  }),
  route({
    method: 'post',
    path: '/devices/:id/restore',
    summary: 'Put a decommissioned device back in service',
    description: 'The device returns as it was. Its token stays revoked, so its agent has to enroll again.',
    access: everyScope('devices:delete'),
    params: IdParams,
    response: Device,
    errors: ['conflict', 'limit_reached', 'tenant_inactive'],
    handler: ({ ctx, params }) => restoreDevice(ctx, params.id, parts.hub),
    audit: { action: 'device.restore', resource: 'device', note: about },
  }),
  route({
    method: 'post',
    path: '/devices/:id/move',
    summary: 'Move a device to another site or organization',
    description:
      'The records of the device move with it; the response names what could not be moved. Its connection ends, and its agent reconnects by itself.',
    access: everyScope('devices:write'),
    params: IdParams,
    body: DeviceMove,
    response: DeviceMoved,
    errors: ['conflict', 'limit_reached', 'tenant_inactive'],
    handler: ({ ctx, params, body }) => moveDevice(ctx, params.id, body, parts.hub),
    audit: {
      action: 'device.move',
      resource: 'device',
      // Both organizations have an entry in their own trail.
      note: ({ device, from, groupsLeft, customFieldsDropped }) => {
        const { orgId, siteId } = device;
        const groups = groupsLeft.map(({ name }) => name);
        const details = { from, to: { orgId, siteId }, groupsLeft: groups, customFieldsDropped };
        return [...new Set([from.orgId, orgId])].map((one) => ({ ...about(device), orgId: one, details }));
      },
    },
  }),
];
