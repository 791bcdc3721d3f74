import { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { NewSsoDomain, SsoDomain, SsoDomainQuery } from './domain.schema.ts';
import {
  createDomain,
  deleteDomain,
  type DomainParts,
  listDomains,
  lookUpDomain,
  readDomain,
  verifyDomain,
} from './domain.service.ts';

const READ = everyScope('organizations:read');
const WRITE = { ...peopleOfEveryScope('organizations:write'), mfa: true } as const;

const about = ({ id, domain, orgId }: { id: string; domain: string; orgId: string }) =>
  auditSubject({ id, name: domain, orgId });

export const domainRoutes = (parts: DomainParts): RouteGroup => ({
  name: 'Domains of single sign-on',
  description:
    'Mail domains of which organizations prove by a DNS record that they own them. A first sign-in by an identity provider opens an account that is there already only if a verified domain covers its address; the domains of a partner are those of its organizations. It creates an account if the provider says that the address is verified, or if a verified domain covers it (docs/decisions/sso-providers.md).',
  routes: [
    route({
      method: 'get',
      path: '/sso/domains',
      summary: 'List the domains of organizations',
      access: READ,
      query: SsoDomainQuery,
      response: pageOf(SsoDomain),
      handler: ({ ctx, query }) => listDomains(ctx, query),
    }),
    route({
      method: 'post',
      path: '/sso/domains',
      summary: 'Create a domain, to prove that an organization owns it',
      description:
        'The domain is pending at first. Publish the `record` in the DNS, then call POST /sso/domains/:id/verify. Public suffixes such as co.uk or github.io are refused.',
      access: WRITE,
      body: NewSsoDomain,
      response: SsoDomain,
      status: 201,
      errors: ['conflict', 'limit_reached'],
      handler: ({ ctx, body }) => createDomain(ctx, body),
      audit: { action: 'sso.domain.create', resource: 'sso_domain', note: about },
    }),
    route({
      method: 'get',
      path: '/sso/domains/:id',
      summary: 'Read a domain',
      access: READ,
      params: IdParams,
      response: SsoDomain,
      handler: ({ ctx, params }) => readDomain(ctx, params.id),
    }),
    route({
      method: 'post',
      path: '/sso/domains/:id/verify',
      summary: 'Look up the DNS record of a domain, and verify the domain',
      description:
        'A verified domain covers its subdomains, except those that another organization has verified. The record is looked up every day; a domain becomes pending again after 7 days without the record, or after 30 days in which the name servers did not answer. Allows 30 look-ups for an organization in 10 minutes.',
      access: WRITE,
      params: IdParams,
      response: SsoDomain,
      errors: ['conflict', 'rate_limited', 'unavailable'],
      prepare: ({ ctx, params }) => lookUpDomain(ctx, params.id, parts),
      handler: ({ ctx, params, prepared }) => verifyDomain(ctx, params.id, prepared),
      audit: { action: 'sso.domain.verify', resource: 'sso_domain', note: about },
    }),
    route({
      method: 'delete',
      path: '/sso/domains/:id',
      summary: 'Delete a domain',
      access: WRITE,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => deleteDomain(ctx, params.id),
      audit: { action: 'sso.domain.delete', resource: 'sso_domain', note: ({ domain }) => about(domain) },
    }),
  ],
});
