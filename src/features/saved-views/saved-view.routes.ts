import { z } from 'zod';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { NewSavedView, SavedView, SavedViewPatch, SavedViewQuery } from './saved-view.schema.ts';
import { createView, deleteView, listViews, updateView } from './saved-view.service.ts';

const note = (name: string) => ({ resourceName: name });

export const savedViewRoutes: RouteGroup = {
  name: 'Saved views',
  description:
    'Names for what a person has chosen on a list of the dashboard, which can be shared with colleagues.',
  routes: [
    route({
      method: 'get',
      path: '/saved-views',
      summary: 'List your views of a list, and those that colleagues share',
      access: 'person',
      query: SavedViewQuery,
      response: z.object({ data: z.array(SavedView) }),
      handler: ({ ctx, query }) => listViews(ctx, query),
    }),
    route({
      method: 'post',
      path: '/saved-views',
      summary: 'Save a view',
      access: 'person',
      body: NewSavedView,
      response: SavedView,
      status: 201,
      errors: ['conflict', 'limit_reached'],
      handler: ({ ctx, body }) => createView(ctx, body),
      audit: {
        action: 'saved_view.create',
        resource: 'saved_view',
        note: ({ id, name, list, isShared }) => ({
          ...note(name),
          resourceId: id,
          details: { list, isShared },
        }),
      },
    }),
    route({
      method: 'patch',
      path: '/saved-views/:id',
      summary: 'Change one of your views',
      access: 'person',
      params: IdParams,
      body: SavedViewPatch,
      response: SavedView,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => updateView(ctx, params.id, body),
      audit: {
        action: 'saved_view.update',
        resource: 'saved_view',
        note: ({ id, name }) => ({ ...note(name), resourceId: id }),
      },
    }),
    route({
      method: 'delete',
      path: '/saved-views/:id',
      summary: 'Delete one of your views',
      access: 'person',
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => deleteView(ctx, params.id),
      audit: {
        action: 'saved_view.delete',
        resource: 'saved_view',
        note: ({ name }, { params }) => ({ ...note(name), resourceId: params.id }),
      },
    }),
  ],
};
