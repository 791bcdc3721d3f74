import { compile } from 'json-schema-to-typescript';
import { z } from 'zod';

/** The parts of a document from which request types are made. */
const Schema = z.record(z.string(), z.unknown());
const Content = z.object({ 'application/json': z.object({ schema: Schema }).optional() }).loose();
const Operation = z.object({
  summary: z.string().optional(),
  parameters: z
    .array(
      z.object({
        name: z.string(),
        in: z.string(),
        required: z.boolean().optional(),
        description: z.string().optional(),
        schema: Schema,
      }),
    )
    .default([]),
  requestBody: z.object({ content: Content }).optional(),
  responses: z.record(z.string(), z.object({ content: Content.optional() })),
});
const OpenApiDocument = z.object({
  // A path may have settings beside its operations, such as `servers`.
  paths: z.record(z.string(), z.record(z.string(), z.unknown())),
  components: z.object({ schemas: z.record(z.string(), Schema) }),
});

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

/**
 * The TypeScript source of the interface `Api`: for each route of an OpenAPI document, such as `GET /devices/{id}`, its
 * path parameters, query, body and answer. The dashboard and `clients/typescript` are typed by it, so that a changed route breaks
 * their build.
 */
export async function dashboardTypes(document: unknown): Promise<string> {
  const { paths, components } = OpenApiDocument.parse(document);
  const routes = Object.entries(paths).flatMap(([path, operations]) =>
    METHODS.filter((method) => operations[method] !== undefined).map((method) => {
      const operation = Operation.parse(operations[method]);
      return [`${method.toUpperCase()} ${path}`, routeSchema(operation)] as const;
    }),
  );
  const api = {
    ...object(Object.fromEntries(routes)),
    title: 'Api',
    definitions: components.schemas,
  };
  const source = await compile(moved(api) as Parameters<typeof compile>[0], 'Api', {
    additionalProperties: false,
    bannerComment:
      '/* Made by `npm run docs` from the route table. Do not edit it: a test compares it with the routes. */',
    format: false,
    maxItems: 0,
    strictIndexSignatures: false,
    unreachableDefinitions: true,
  });
  return source;
}

function routeSchema({ parameters, requestBody, responses, summary }: z.output<typeof Operation>) {
  const within = (place: string) => parameters.filter((parameter) => parameter.in === place);
  const params = within('path');
  const query = within('query');
  const body = requestBody?.content['application/json']?.schema;
  const answer = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1];
  return {
    ...object({
      ...(params.length > 0 && { params: ofParameters(params) }),
      ...(query.length > 0 && { query: ofParameters(query) }),
      ...(body !== undefined && { body }),
      response: answer?.content?.['application/json']?.schema ?? { type: 'null' },
    }),
    description: summary,
  };
}

function ofParameters(parameters: z.output<typeof Operation>['parameters']) {
  const properties = parameters.map(({ name, schema, description }) => [name, { ...schema, description }]);
  return {
    ...object(Object.fromEntries(properties)),
    required: parameters.filter(({ required }) => required === true).map(({ name }) => name),
  };
}

const object = (properties: Record<string, unknown>) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

/** With references to the definitions of the single schema, and without rules that do not affect the type. */
function moved(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(moved);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([key, inner]) => !isRule(key, inner));
  return Object.fromEntries(
    kept.map(([key, inner]) => [
      key,
      key === '$ref' ? String(inner).replace('#/components/schemas/', '#/definitions/') : moved(inner),
    ]),
  );
}

const RULES = [
  'pattern',
  'format',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minimum',
  'maximum',
  'default',
];
const isRule = (key: string, value: unknown) => RULES.includes(key) && typeof value !== 'object';
