import path from 'node:path';

/**
 * What the engine may take over from the environment of its machine. Everything else stays away from restic: it
 * follows `HTTP_PROXY`, and `RESTIC_*` and `AWS_*` of the machine would change what it does.
 */
export interface HostEnvironment {
  PATH?: string | undefined;
  /** Windows: without these two, programs find neither the network nor a folder for temporary files. */
  SystemRoot?: string | undefined;
  TEMP?: string | undefined;
}

export interface EnvironmentInput {
  host: HostEnvironment;
  cacheFolder: string;
  /** A file with the credentials of an S3 destination. */
  credentialsFile?: string | undefined;
  /** How many processors restic may use. */
  processors?: number | undefined;
  /** The address of a proxy, for encrypted connections. */
  proxy?: string | undefined;
}

export function engineEnvironment(input: EnvironmentInput): Record<string, string> {
  const { host, cacheFolder, credentialsFile, processors, proxy } = input;
  const environment: Record<string, string | undefined> = {
    PATH: absoluteFolders(host.PATH),
    RESTIC_CACHE_DIR: cacheFolder,
    RESTIC_PROGRESS_FPS: '2',
    LC_ALL: 'C',
    ...(process.platform === 'win32' ? { SystemRoot: host.SystemRoot, TEMP: host.TEMP, TMP: host.TEMP } : {}),
    AWS_SHARED_CREDENTIALS_FILE: credentialsFile,
    HTTPS_PROXY: proxy,
    GOMAXPROCS: processors === undefined ? undefined : String(processors),
  };
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

const absoluteFolders = (searchPath = '') =>
  searchPath
    .split(path.delimiter)
    .filter((entry) => path.isAbsolute(entry))
    .join(path.delimiter);
