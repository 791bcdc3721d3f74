/** The part of samlp that the tests use; the package has no types. */
declare module 'samlp' {
  import type { Request, RequestHandler } from 'express';

  interface ProfileMapper {
    getClaims(): Readonly<Record<string, string | readonly string[]>>;
    getNameIdentifier(): { nameIdentifier: string; nameIdentifierFormat: string };
  }
  interface Issuer {
    issuer: string;
    cert: string;
    key: string;
  }
  interface SamlpModule {
    auth(
      options: Issuer & {
        destination: string;
        recipient: string;
        signResponse?: boolean;
        authnContextClassRef?: string;
        lifetimeInSeconds: number;
        getUserFromRequest(request: Request): object;
        profileMapper(user: object): ProfileMapper;
        getPostURL(
          audience: string,
          request: unknown,
          incoming: Request,
          done: (error: Error | null, url: string) => void,
        ): void;
      },
    ): RequestHandler;
    sendError(
      options: Issuer & {
        destination: string;
        inResponseTo: string;
        RelayState: string;
        error: { code: string; description: string };
        getPostURL(incoming: Request, done: (error: Error | null, url: string) => void): void;
      },
    ): RequestHandler;
    parseRequest(
      request: Request,
      options: object,
      done: (
        error: Error | null,
        data?: { id?: string; issuer?: string; assertionConsumerServiceURL?: string },
      ) => void,
    ): void;
    metadata(
      options: Issuer & { redirectEndpointPath: string; postEndpointPath: string; profileMapper: unknown },
    ): RequestHandler;
  }
  const samlp: SamlpModule;
  export default samlp;
}
