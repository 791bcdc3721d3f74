import type { DeviceHub } from '../../hub/index.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { CustomField as Field } from './custom-field.model.ts';
import {
  CustomField,
  CustomFieldDeleted,
  CustomFieldPatch,
  CustomFieldQuery,
  NewCustomField,
} from './custom-field.schema.ts';
import {
  createCustomField,
  deleteCustomField,
  listCustomFields,
  readCustomField,
  updateCustomField,
} from './custom-field.service.ts';

const about = ({ id, orgId, key }: Field) => auditSubject({ id, orgId, name: key });

export function customFieldRoutes({ hub }: { hub: DeviceHub }): RouteGroup {
  return {
    name: 'Custom fields',
    description: 'Fields that an organization adds to its devices.',
    routes: [
      route({
        method: 'get',
        path: '/custom-fields',
        summary: 'List custom fields by key',
        access: everyScope('devices:read'),
        query: CustomFieldQuery,
        response: pageOf(CustomField),
        handler: ({ ctx, query }) => listCustomFields(ctx, query),
      }),
      route({
        method: 'post',
        path: '/custom-fields',
        summary: 'Define a custom field',
        access: everyScope('devices:write'),
        body: NewCustomField,
        response: CustomField,
        status: 201,
        errors: ['conflict', 'limit_reached', 'tenant_inactive'],
        handler: ({ ctx, body }) => createCustomField(ctx, body, hub),
        audit: {
          action: 'custom_field.create',
          resource: 'custom_field',
          note: (field) => ({ ...about(field), details: { type: field.type } }),
        },
      }),
      route({
        method: 'get',
        path: '/custom-fields/:id',
        summary: 'Read a custom field',
        access: everyScope('devices:read'),
        params: IdParams,
        response: CustomField,
        handler: ({ ctx, params }) => readCustomField(ctx, params.id),
      }),
      route({
        method: 'patch',
        path: '/custom-fields/:id',
        summary: 'Change a custom field',
        access: everyScope('devices:write'),
        params: IdParams,
        body: CustomFieldPatch,
        response: CustomField,
        errors: ['conflict', 'tenant_inactive'],
        handler: ({ ctx, params, body }) => updateCustomField(ctx, params.id, body, hub),
        audit: {
          action: 'custom_field.update',
          resource: 'custom_field',
          note: (field) => ({ ...about(field), details: { changedFields: field.changedFields } }),
        },
      }),
      route({
        method: 'delete',
        path: '/custom-fields/:id',
        summary: 'Delete a custom field and its values on all devices',
        access: everyScope('devices:write'),
        params: IdParams,
        response: CustomFieldDeleted,
        errors: ['tenant_inactive'],
        handler: ({ ctx, params }) => deleteCustomField(ctx, params.id, hub),
        audit: {
          action: 'custom_field.delete',
          resource: 'custom_field',
          note: ({ field, devicesChanged }) => ({ ...about(field), details: { devicesChanged } }),
        },
      }),
    ],
  };
}
