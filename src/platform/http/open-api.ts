import { z } from 'zod';
import { type AppError, type ErrorCode, ERROR_STATUS, wireCode } from '../errors.ts';
import { ErrorBody } from './error-body.ts';
import { refusesKeys } from './authentication.ts';
import type { Access, AnyRoute, RouteGroup } from './route.ts';

/** The heading of the routes about the server itself, in the route table and beside it. */
export const SERVICE_TAG = {
  name: 'Service',
  description: 'Health, metrics and documents of the server itself.',
};

/** Paths that are served beside the route table (SHAPES 2), because no client of the interface asks for it. */
const METRICS_PATH = {
  path: '/metrics',
  summary: 'Read the metrics of this server',
  description:
    'In the text format of Prometheus. A request that came through a proxy, or from another machine, needs METRICS_TOKEN as bearer token.',
  answer: { description: 'Metrics.', media: 'text/plain', schema: z.string() },
};

type Json = Record<string, unknown>;

/** The OpenAPI 3.1 document of the table, and of what is served beside it. */
export function openApi(
  groups: readonly RouteGroup[],
  info: { title: string; version: string; description: string },
): Json {
  const components: Json = {};
  const errorSchema = schemaOf(ErrorBody, 'output', components);
  const paths: Record<string, Json> = {};
  for (const group of groups) {
    for (const row of group.routes) {
      const path = row.path.replaceAll(/:(\w+)/g, '{$1}');
      const servers = row.bases === undefined ? {} : { servers: row.bases.map((url) => ({ url })) };
      (paths[path] ??= servers)[row.method] = operation(row, group.name, components, errorSchema);
    }
  }
  paths[METRICS_PATH.path] = metricsPath(components, errorSchema);
  return {
    openapi: '3.1.0',
    info,
    servers: [{ url: '/api/v1' }],
    tags: groups.map(({ name, description }) => ({ name, description })),
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'An access token from POST /auth/login, or an API key (`mstr_…`) from POST /api-keys.',
        },
        metrics: { type: 'http', scheme: 'bearer', description: 'METRICS_TOKEN of the server.' },
        agent: {
          type: 'http',
          scheme: 'bearer',
          description:
            'The token of an agent (`magt_…`) from POST /agents/enroll. It opens its own device only.',
        },
      },
    },
  };
}

function metricsPath(components: Json, errorSchema: Json): Json {
  const { path, summary, description, answer } = METRICS_PATH;
  return {
    servers: [{ url: '/' }],
    get: {
      operationId: operationId('get', path),
      summary,
      tags: [SERVICE_TAG.name],
      description,
      security: [{}, { metrics: [] }],
      responses: {
        200: {
          description: answer.description,
          content: { [answer.media]: { schema: schemaOf(answer.schema, 'output', components) } },
        },
        403: { description: '`FORBIDDEN`', content: { 'application/json': { schema: errorSchema } } },
      },
    },
  };
}

const operationId = (method: string, path: string): string =>
  `${method}${path.replaceAll(/[^a-zA-Z0-9]+(\w)?/g, (_match, next: string | undefined) => next?.toUpperCase() ?? '')}`;

function operation(row: AnyRoute, tag: string, components: Json, errorSchema: Json): Json {
  const result: Json = {
    operationId: operationId(row.method, row.path),
    summary: row.summary,
    tags: [tag],
    description: [row.description, accessText(row)].filter(Boolean).join('\n\n'),
    security: security(row.access),
    parameters: [
      ...parameters(row.params, 'path', components),
      ...parameters(row.query, 'query', components),
      ...(row.idempotent === true ? [IDEMPOTENCY_KEY] : []),
      ...(row.bodyType === 'bytes' ? [CONTENT_HASH] : []),
    ],
    responses: { ...goodResponse(row, components), ...errorResponses(row, errorSchema) },
  };
  if (row.bodyType === 'bytes') result['requestBody'] = BYTES;
  else if (row.body !== undefined) {
    const type = row.bodyType === 'form' ? 'application/x-www-form-urlencoded' : 'application/json';
    result['requestBody'] = {
      required: true,
      content: { [type]: { schema: withNulls(schemaOf(row.body, 'input', components)) } },
    };
  }
  return result;
}

function goodResponse(row: AnyRoute, components: Json): Json {
  if (row.redirects === true) {
    const headers = { Location: { schema: { type: 'string', format: 'uri' } } };
    return { 303: { description: 'A redirect of the browser.', headers } };
  }
  const others = Object.entries(row.otherAnswers ?? {}).map(([status, { description, schema }]) => [
    status,
    { description, content: { 'application/json': { schema: schemaOf(schema, 'output', components) } } },
  ]);
  return {
    [String(row.status ?? 200)]: { description: 'Done.', content: answerContent(row, components) },
    ...Object.fromEntries(others),
  };
}

function answerContent(row: AnyRoute, components: Json): Json {
  const schema = schemaOf(row.response, 'output', components);
  const media = row.media ?? ['application/json'];
  return Object.fromEntries(
    media.map((type) => [type, { schema: type === 'application/json' ? schema : { type: 'string' } }]),
  );
}

const IDEMPOTENCY_KEY: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'The same key with the same request gets the first answer again for 24 hours, and nothing is done twice.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};

const CONTENT_HASH: Json = {
  name: 'X-Content-SHA256',
  in: 'header',
  required: true,
  description: 'SHA-256 of the body in hexadecimal digits.',
  schema: { type: 'string', pattern: '^[0-9a-fA-F]{64}$' },
};

const BYTES: Json = {
  required: true,
  content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
};

function security(access: Access): Json[] {
  if (access === 'public') return [];
  return [access === 'agent' ? { agent: [] } : { bearer: [] }];
}

function accessText(row: AnyRoute): string {
  if (row.access === 'public') return 'Needs no sign-in.';
  if (row.access === 'agent') return 'For the agent of the device, by its own token.';
  const { access } = row;
  const sentences: string[] = [];
  if (typeof access === 'string') sentences.push('For everyone who is signed in.');
  else {
    sentences.push(`Scope: ${access.scopes.join(', ')}.`);
    if (access.permission !== undefined) sentences.push(`Permission: \`${access.permission}\`.`);
    if (access.mfa === true) {
      sentences.push('The session needs a second factor (POST /auth/mfa/step-up adds one).');
    }
  }
  if (refusesKeys(access)) sentences.push('API keys are refused.');
  return sentences.join(' ');
}

function errorResponses(row: AnyRoute, schema: Json): Json {
  const codes = new Set<ErrorCode>(row.errors);
  const takesInput = row.query !== undefined || row.body !== undefined || row.bodyType === 'bytes';
  if (takesInput) codes.add('validation_failed');
  if (row.access !== 'public') codes.add('unauthenticated');
  if (row.access === 'agent') codes.add('tenant_inactive').add('rate_limited');
  else if (row.access !== 'public') {
    codes.add('forbidden');
    if (!refusesKeys(row.access)) codes.add('rate_limited');
  }
  if (row.cost !== undefined) codes.add('rate_limited');
  if (typeof row.access === 'object' && row.access.mfa === true) codes.add('mfa_required');
  if (row.params !== undefined) codes.add('not_found');
  if (row.idempotent === true) codes.add('conflict');
  const byStatus = new Map<AppError['status'], string[]>();
  for (const code of codes) {
    const status = ERROR_STATUS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), wireCode(code)]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, names]) => [
      String(status),
      {
        description: names.map((name) => `\`${name}\``).join(', '),
        content: { 'application/json': { schema } },
      },
    ]),
  );
}

function parameters(schema: z.ZodType | undefined, place: 'path' | 'query', components: Json): Json[] {
  if (schema === undefined) return [];
  const object = schemaOf(schema, 'input', components) as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(object.properties ?? {}).map(([name, { description, ...property }]) => ({
    name,
    in: place,
    required: place === 'path' || (object.required?.includes(name) ?? false),
    ...(description === undefined ? {} : { description }),
    schema: property,
  }));
}

/** The schema of a body, in which null stands for every optional field that is left out (see `parseBody`). */
function withNulls(schema: Json): Json {
  const all = (forms: unknown) =>
    Array.isArray(forms) ? forms.map((form) => withNulls(form as Json)) : forms;
  const { properties, required, items, ...rest } = schema;
  for (const key of ['anyOf', 'oneOf', 'allOf']) if (key in rest) rest[key] = all(rest[key]);
  const needed = new Set(Array.isArray(required) ? required : []);
  const fields = Object.entries((properties ?? {}) as Record<string, Json>).map(([name, field]) => {
    const inner = withNulls(field);
    return [name, needed.has(name) || takesNull(inner) ? inner : orNull(inner)];
  });
  return {
    ...rest,
    ...(properties === undefined ? {} : { properties: Object.fromEntries(fields) }),
    ...(required === undefined ? {} : { required }),
    ...(items === undefined ? {} : { items: withNulls(items as Json) }),
  };
}

/** Also a schema that takes anything. */
const takesNull = ({ type, anyOf, oneOf, $ref, enum: values, const: value, allOf }: Json): boolean =>
  type === 'null' ||
  [anyOf, oneOf].some((forms) => Array.isArray(forms) && forms.some((form) => takesNull(form as Json))) ||
  [type, anyOf, oneOf, $ref, values, value, allOf].every((each) => each === undefined);

function orNull({ description, ...field }: Json): Json {
  return { ...(description === undefined ? {} : { description }), anyOf: [field, { type: 'null' }] };
}

/** JSON Schema of a zod object. Schemas that have an id are lifted into `components` and referred to. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output', components: Json): Json {
  const { $schema: _dialect, $defs, id, ...own } = jsonSchema(schema, io);
  for (const [name, definition] of Object.entries(($defs ?? {}) as Record<string, Json>)) {
    const { id: _id, ...rest } = definition;
    components[name] ??= lift(rest);
  }
  const lifted = lift(own) as Json;
  if (typeof id !== 'string') return lifted;
  components[id] ??= lifted;
  return { $ref: `#/components/schemas/${id}` };
}

/** Most rows share their schemas with others, and every server of one process has the same ones. */
const jsonSchemas = { input: new WeakMap<z.ZodType, Json>(), output: new WeakMap<z.ZodType, Json>() };

function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const known = jsonSchemas[io].get(schema);
  if (known !== undefined) return known;
  const made = z.toJSONSchema(schema, { target: 'draft-2020-12', io, unrepresentable: 'any' }) as Json;
  jsonSchemas[io].set(schema, made);
  return made;
}

function lift(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(lift);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === '$ref' && typeof inner === 'string'
        ? inner.replace('#/$defs/', '#/components/schemas/')
        : lift(inner),
    ]),
  );
}
