// Numbers by order of use instead of by path: a build in another folder gives the same chunks.
module.exports = {
  optimization: { moduleIds: 'natural', chunkIds: 'natural' }
};
