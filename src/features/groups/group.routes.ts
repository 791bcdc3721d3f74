import { z } from 'zod';
import type { DeviceHub } from '../../hub/index.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { costOfListing, Device } from '../devices/index.ts';
import {
  Group,
  GroupChange,
  GroupChangeQuery,
  GroupDeviceQuery,
  GroupMembers,
  GroupPatch,
  GroupQuery,
  MembersAdded,
  MembersRemoved,
  NewGroup,
} from './group.schema.ts';
import {
  addMembers,
  createGroup,
  deleteGroup,
  listGroupChanges,
  listGroupDevices,
  listGroups,
  readGroup,
  removeMembers,
  updateGroup,
} from './group.service.ts';

const READ = { scopes: ['organization', 'partner', 'system'], permission: 'devices:read' } as const;
const WRITE = { scopes: ['organization', 'partner', 'system'], permission: 'devices:write' } as const;

export const groupRoutes = ({ hub }: { hub: Pick<DeviceHub, 'devicesChanged'> }): RouteGroup => ({
  name: 'Groups',
  description: 'Static and dynamic groups of devices.',
  routes: [
    route({
      method: 'get',
      path: '/groups',
      summary: 'List device groups of one or all accessible organizations',
      access: READ,
      cost: 'expensive',
      query: GroupQuery,
      response: pageOf(Group),
      handler: ({ ctx, query }) => listGroups(ctx, query),
    }),
    route({
      method: 'post',
      path: '/groups',
      summary: 'Create a device group',
      description:
        'A static group has the given devices. A dynamic group has the devices that its saved filter finds.',
      access: WRITE,
      cost: 'expensive',
      body: NewGroup,
      response: Group,
      status: 201,
      errors: ['conflict', 'limit_reached', 'tenant_inactive'],
      handler: ({ ctx, body }) => createGroup(ctx, body, hub),
      audit: {
        action: 'group.create',
        resource: 'group',
        note: ({ id, orgId, name, deviceCount }) => ({
          orgId,
          resourceId: id,
          resourceName: name,
          details: { deviceCount },
        }),
      },
    }),
    route({
      method: 'get',
      path: '/groups/:id',
      summary: 'Read a device group',
      access: READ,
      params: IdParams,
      response: Group,
      handler: ({ ctx, params }) => readGroup(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/groups/:id',
      summary: 'Change a device group',
      access: WRITE,
      cost: 'expensive',
      params: IdParams,
      body: GroupPatch,
      response: Group,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params, body }) => updateGroup(ctx, params.id, body, hub),
      audit: {
        action: 'group.update',
        resource: 'group',
        note: ({ id, orgId, name, changedFields }) => ({
          orgId,
          resourceId: id,
          resourceName: name,
          details: { changedFields },
        }),
      },
    }),
    route({
      method: 'delete',
      path: '/groups/:id',
      summary: 'Delete a device group but not its devices',
      access: WRITE,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['tenant_inactive'],
      handler: ({ ctx, params }) => deleteGroup(ctx, params.id, hub),
      audit: {
        action: 'group.delete',
        resource: 'group',
        note: ({ group: { id, orgId, name } }) => ({ orgId, resourceId: id, resourceName: name }),
      },
    }),
    route({
      method: 'get',
      path: '/groups/:id/devices',
      summary: 'List the devices of a group',
      access: READ,
      cost: costOfListing,
      params: IdParams,
      query: GroupDeviceQuery,
      response: pageOf(Device),
      handler: ({ ctx, params, query }) => listGroupDevices(ctx, params.id, query),
    }),
    route({
      method: 'get',
      path: '/groups/:id/changes',
      summary: 'List membership changes of a group, newest first',
      access: READ,
      params: IdParams,
      query: GroupChangeQuery,
      response: pageOf(GroupChange),
      handler: ({ ctx, params, query }) => listGroupChanges(ctx, params.id, query),
    }),
    route({
      method: 'post',
      path: '/groups/:id/devices',
      summary: 'Add devices to a group',
      description:
        'Devices that are already members are ignored. If one of the devices is not in the organization, none is added.',
      access: WRITE,
      params: IdParams,
      body: GroupMembers,
      response: MembersAdded,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params, body }) => addMembers(ctx, params.id, body.deviceIds, hub),
      audit: {
        action: 'group.members.update',
        resource: 'group',
        note: ({ added, group: { id, orgId, name } }) => ({
          orgId,
          resourceId: id,
          resourceName: name,
          details: { added },
        }),
      },
    }),
    route({
      method: 'post',
      path: '/groups/:id/devices/remove',
      summary: 'Remove devices from a group',
      description: 'Devices that are not members are ignored.',
      access: WRITE,
      params: IdParams,
      body: GroupMembers,
      response: MembersRemoved,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params, body }) => removeMembers(ctx, params.id, body.deviceIds, hub),
      audit: {
        action: 'group.members.update',
        resource: 'group',
        note: ({ removed, group: { id, orgId, name } }) => ({
          orgId,
          resourceId: id,
          resourceName: name,
          details: { removed },
        }),
      },
    }),
  ],
});
