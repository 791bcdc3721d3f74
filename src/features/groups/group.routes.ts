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
  description: 'Devices of an organization under a name of their own.',
  routes: [
    route({
      method: 'get',
      path: '/groups',
      summary: 'List device groups of one or of all accessible organizations',
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
      description: 'Static, or dynamic by a saved filter: then its devices are those that the filter finds.',
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
      summary: 'Delete a device group; its devices stay',
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
      summary: 'List how devices came into a group and out of it, the latest first',
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
        'Devices that are in it already stay. Where one is not of the organization, none is added.',
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
      summary: 'Take devices out of a group',
      description: 'What is not in the group is passed over.',
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
