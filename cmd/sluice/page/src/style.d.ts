// esbuild bundles the style sheets. TypeScript only has to accept their import.
declare module "*.css";
