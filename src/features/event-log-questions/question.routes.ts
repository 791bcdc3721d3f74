import { z } from 'zod';
import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { RepeatedReads } from '../audit/index.ts';
import type { WorkEngine } from '../work/index.ts';
import {
  Answer,
  NewQuestion,
  Question,
  QuestionDevicePage,
  QuestionDeviceParams,
  QuestionDeviceQuery,
  QuestionPage,
  QuestionQueryString,
} from './question.schema.ts';
import {
  askQuestion,
  cancelQuestion,
  deleteQuestion,
  DEVICES_MAX,
  listQuestionDevices,
  listQuestions,
  QUESTIONS_MAX,
  readAnswer,
  readQuestion,
} from './question.service.ts';
import { ASKS } from './question.work.ts';

const ACCESS = everyScope(ASKS);

const noteOf = ({
  id,
  name,
  query,
  orgId,
  partnerId,
}: Pick<Question, 'id' | 'name' | 'query' | 'orgId' | 'partnerId'>) => ({
  orgId,
  partnerId,
  resourceId: id,
  resourceName: name ?? query.name,
});

export const questionRoutes = ({ reads, work }: { reads: RepeatedReads; work: WorkEngine }): RouteGroup => ({
  name: 'Event log questions',
  description:
    'Live queries of event logs that devices are asked as they come back. An addition to the specification.',
  routes: [
    route({
      method: 'post',
      path: '/event-log-questions',
      summary: 'Ask devices about an event log as they come back',
      description: `Devices that are connected are asked soon, the others when they connect. The devices are found out once, when the question is made: at most ${DEVICES_MAX}, without those that wait for approval. An organization can have ${QUESTIONS_MAX} questions, and a partner ${QUESTIONS_MAX} of its own; each is removed 30 days after its end. Whoever asks has to hold the right to until a device is asked; a question that is made with an API key goes by the rights of the person who made the key.`,
      access: ACCESS,
      cost: 'expensive',
      body: NewQuestion,
      response: Question,
      status: 201,
      errors: ['conflict', 'limit_reached', 'tenant_inactive'],
      handler: ({ ctx, body }) => askQuestion(ctx, body, work),
      audit: {
        action: 'event_log_question.create',
        resource: 'event_log_question',
        note: ({ target, query, days, devices, ...question }) => ({
          ...noteOf({ ...question, query }),
          details: { target, query, days, devices },
        }),
      },
    }),
    route({
      method: 'get',
      path: '/event-log-questions',
      summary: 'List event log questions, newest first',
      description:
        'Those of partners are shown to users with access to all of the organizations of the partner.',
      access: ACCESS,
      cost: 'expensive',
      query: QuestionQueryString,
      response: QuestionPage,
      handler: ({ ctx, query }) => listQuestions(ctx, query),
    }),
    route({
      method: 'get',
      path: '/event-log-questions/:id',
      summary: 'Read an event log question, with the number of devices by outcome',
      access: ACCESS,
      params: IdParams,
      response: Question,
      handler: ({ ctx, params }) => readQuestion(ctx, params.id),
    }),
    route({
      method: 'get',
      path: '/event-log-questions/:id/devices',
      summary: 'List the devices of an event log question with their outcomes',
      access: ACCESS,
      params: IdParams,
      query: QuestionDeviceQuery,
      response: QuestionDevicePage,
      handler: ({ ctx, params, query }) => listQuestionDevices(ctx, params.id, query),
    }),
    route({
      method: 'get',
      path: '/event-log-questions/:id/devices/:deviceId',
      summary: 'Read what a device has answered to an event log question',
      access: ACCESS,
      params: QuestionDeviceParams,
      response: Answer,
      handler: ({ ctx, params }) => readAnswer(ctx, params, reads),
      audit: { action: 'data.access', resource: 'device', note: ({ noted }) => noted },
    }),
    route({
      method: 'post',
      path: '/event-log-questions/:id/cancel',
      summary: 'Cancel an event log question',
      description:
        'Devices that have not answered are not asked any more; one that is being asked is told to stop. Answers stay. The question of another person needs devices:write.',
      access: ACCESS,
      params: IdParams,
      response: Question,
      errors: ['conflict'],
      handler: ({ ctx, params }) => cancelQuestion(ctx, params.id, work),
      audit: { action: 'event_log_question.cancel', resource: 'event_log_question', note: noteOf },
    }),
    route({
      method: 'delete',
      path: '/event-log-questions/:id',
      summary: 'Delete an event log question with its answers',
      description: 'The question of another person needs devices:write.',
      access: ACCESS,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => deleteQuestion(ctx, params.id, work),
      audit: {
        action: 'event_log_question.delete',
        resource: 'event_log_question',
        note: ({ question }) => noteOf(question),
      },
    }),
  ],
});
