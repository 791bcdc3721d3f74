import { z } from 'zod';
import { EnrollRequest, EnrollResponse } from '../../protocol/index.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  createEnrollmentKey,
  listEnrollmentKeys,
  readEnrollmentKey,
  revokeEnrollmentKey,
  rotateEnrollmentKey,
} from './enrollment-key.service.ts';
import {
  CreatedEnrollmentKey,
  EnrollmentKey,
  EnrollmentKeyQuery,
  NewEnrollmentKey,
} from './enrollment.schema.ts';
import { enroll, type EnrollmentSettings } from './enroll.service.ts';

export function enrollmentRoutes(settings: EnrollmentSettings): RouteGroup {
  return {
    name: 'Enrollment',
    description: 'How machines become devices.',
    routes: [
      route({
        method: 'post',
        path: '/agents/enroll',
        summary: 'Enroll a device with an enrollment key',
        description:
          'Called by the agent. The same `machineId` in the same organization is the same device, with a new token, unless a connected device has it: then the agent proves that it is that device by its token (`Authorization`), or it becomes a device of its own with the status `pending`, which waits for approval.',
        access: 'public',
        unaudited: 'writes device.create or device.update itself: the device is none before',
        body: EnrollRequest,
        response: EnrollResponse,
        status: 201,
        errors: ['unauthenticated', 'tenant_inactive', 'limit_reached', 'rate_limited'],
        handler: ({ ctx, body, bearer }) => enroll(ctx, body, bearer, settings),
      }),
      route({
        method: 'post',
        path: '/enrollment-keys',
        summary: 'Create an enrollment key',
        description: 'The key is returned only once.',
        access: everyScope('agents:write'),
        body: NewEnrollmentKey,
        response: CreatedEnrollmentKey,
        status: 201,
        handler: ({ ctx, body }) => createEnrollmentKey(ctx, body),
        audit: {
          action: 'enrollment_key.create',
          resource: 'enrollment_key',
          note: auditSubject,
        },
      }),
      route({
        method: 'get',
        path: '/enrollment-keys',
        summary: 'List enrollment keys, newest first',
        access: everyScope('agents:read'),
        query: EnrollmentKeyQuery,
        response: pageOf(EnrollmentKey),
        handler: ({ ctx, query }) => listEnrollmentKeys(ctx, query),
      }),
      route({
        method: 'get',
        path: '/enrollment-keys/:id',
        summary: 'Read an enrollment key',
        access: everyScope('agents:read'),
        params: IdParams,
        response: EnrollmentKey,
        handler: ({ ctx, params }) => readEnrollmentKey(ctx, params.id),
      }),
      route({
        method: 'post',
        path: '/enrollment-keys/:id/rotate',
        summary: 'Replace the value of an enrollment key',
        description:
          'The old value stops working at once. Limits, expiry and the count of uses stay. The new value is returned only once.',
        access: everyScope('agents:write'),
        params: IdParams,
        response: CreatedEnrollmentKey,
        status: 201,
        errors: ['tenant_inactive', 'conflict'],
        handler: ({ ctx, params }) => rotateEnrollmentKey(ctx, params.id),
        audit: {
          action: 'enrollment_key.rotate',
          resource: 'enrollment_key',
          note: auditSubject,
        },
      }),
      route({
        method: 'delete',
        path: '/enrollment-keys/:id',
        summary: 'Revoke an enrollment key',
        access: everyScope('agents:write'),
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        handler: ({ ctx, params }) => revokeEnrollmentKey(ctx, params.id),
        audit: {
          action: 'enrollment_key.revoke',
          resource: 'enrollment_key',
          note: ({ key }) => auditSubject(key),
        },
      }),
    ],
  };
}
